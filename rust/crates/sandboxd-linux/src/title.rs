//! The command line that others see in `/proc/<pid>/cmdline`.

use std::fs;
use std::io;

/// The memory that holds this process's arguments.
#[derive(Debug, Clone, Copy)]
pub struct Title {
    start: usize,
    length: usize,
}

impl Title {
    /// Finds it.
    ///
    /// # Errors
    ///
    /// If `/proc` is not mounted.
    pub fn find() -> io::Result<Self> {
        let found = parse(&fs::read_to_string("/proc/self/stat")?);
        found.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Overwrites the arguments, cut to the room that there is. Their old text is gone.
    ///
    /// # Safety
    ///
    /// This process has the memory in which the title was found, and nothing uses its arguments.
    pub unsafe fn set(self, text: &[u8]) {
        // SAFETY: as promised by the caller; the kernel put the arguments at the top of the stack,
        // where they stay writable.
        let memory = unsafe { std::slice::from_raw_parts_mut(self.start as *mut u8, self.length) };
        memory.fill(0);
        for (place, byte) in memory.iter_mut().zip(text) {
            *place = *byte;
        }
    }
}

/// Fields 48 and 49 of `/proc/<pid>/stat`.
fn parse(stat: &str) -> Option<Title> {
    // The second field is a name in parentheses and may itself hold spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(45).map(str::parse);
    let start: usize = fields.next()?.ok()?;
    let end: usize = fields.next()?.ok()?;
    (start != 0).then_some(Title { start, length: end.checked_sub(start)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_is_where_the_arguments_are() {
        let expected = fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(Title::find().unwrap().length, expected.len());
    }
}
