//! Who a command runs as: names and numbers, looked up in the sandbox's own files.
//!
//! The files belong to whoever runs in the sandbox: anything may be in them. Lines that are not
//! well formed are passed over, as libc does.

/// A user as a request names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UserName {
    Name(String),
    Ids { uid: u32, gid: Option<u32> },
}

impl UserName {
    /// Reads `name`, `uid` or `uid:gid`. `None` if it is none of these.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let number = |text: &str| {
            // `parse` alone would take a plus sign.
            text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
        };
        if let Some((uid, gid)) = text.split_once(':') {
            return Some(Self::Ids { uid: number(uid)?, gid: Some(number(gid)?) });
        }
        if let Some(uid) = number(text) {
            return Some(Self::Ids { uid, gid: None });
        }
        let plausible = (1..=256).contains(&text.len())
            && !text.starts_with(|first: char| first.is_ascii_digit())
            && !text.chars().any(|letter| letter.is_control() || letter.is_whitespace());
        plausible.then(|| Self::Name(text.to_owned()))
    }
}

/// What a process gets from its user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Supplementary groups.
    pub(crate) groups: Vec<u32>,
    pub(crate) name: Vec<u8>,
    pub(crate) home: Vec<u8>,
    /// Empty if the sandbox does not say.
    pub(crate) shell: Vec<u8>,
}

/// The kernel's limit is 65,536; nobody means more than this.
const MAX_GROUPS: usize = 1_024;

/// Looks `user` up in the contents of `/etc/passwd` and `/etc/group`.
///
/// A number needs no entry: it then has its own number as group and `/` as home. `None` if a name
/// has no entry.
pub(crate) fn look_up(user: &UserName, passwd: &[u8], group: &[u8]) -> Option<User> {
    let entries = || passwd.split(|byte| *byte == b'\n').filter_map(Entry::parse);
    let entry = match user {
        UserName::Name(name) => Some(entries().find(|entry| entry.name == name.as_bytes())?),
        UserName::Ids { uid, .. } => entries().find(|entry| entry.uid == *uid),
    };
    let (uid, explicit_gid) = match (user, &entry) {
        (UserName::Ids { uid, gid }, _) => (*uid, *gid),
        (UserName::Name(_), entry) => (entry.as_ref()?.uid, None),
    };
    let Some(entry) = entry else {
        return Some(User {
            uid,
            gid: explicit_gid.unwrap_or(uid),
            groups: Vec::new(),
            name: uid.to_string().into_bytes(),
            home: b"/".to_vec(),
            shell: Vec::new(),
        });
    };
    Some(User {
        uid,
        gid: explicit_gid.unwrap_or(entry.gid),
        // Whoever names a group wants that one and no other.
        groups: if explicit_gid.is_some() { Vec::new() } else { groups_of(entry.name, group) },
        name: entry.name.to_vec(),
        home: if entry.home.starts_with(b"/") { entry.home.to_vec() } else { b"/".to_vec() },
        shell: entry.shell.to_vec(),
    })
}

struct Entry<'a> {
    name: &'a [u8],
    uid: u32,
    gid: u32,
    home: &'a [u8],
    shell: &'a [u8],
}

impl<'a> Entry<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        // Home and shell become strings of the environment, which NUL would cut.
        if line.contains(&0) {
            return None;
        }
        let mut fields = line.split(|byte| *byte == b':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        let _password = fields.next()?;
        let uid = number(fields.next()?)?;
        let gid = number(fields.next()?)?;
        let _comment = fields.next()?;
        let home = fields.next()?;
        let shell = fields.next().unwrap_or_default();
        Some(Self { name, uid, gid, home, shell })
    }
}

fn groups_of(name: &[u8], group: &[u8]) -> Vec<u32> {
    let gid_if_member = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b':');
        let _name = fields.next()?;
        let _password = fields.next()?;
        let gid = number(fields.next()?)?;
        fields.next()?.split(|byte| *byte == b',').any(|member| member == name).then_some(gid)
    };
    let lines = group.split(|byte| *byte == b'\n');
    lines.filter_map(gid_if_member).take(MAX_GROUPS).collect()
}

fn number(field: &[u8]) -> Option<u32> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/bash\n\
        broken line\n\
        grader:x:1000:1001:Grader,,,:/home/grader:/bin/sh\n\
        bare:x:7:8::relative:\n";
    const GROUP: &[u8] = b"root:x:0:\naudio:x:29:grader,bare\nx\nvideo:x:44:other,grader\n";

    fn found(text: &str) -> Option<User> {
        look_up(&UserName::parse(text)?, PASSWD, GROUP)
    }

    #[test]
    fn a_name_brings_its_ids_groups_and_home() {
        let user = found("grader").unwrap();
        assert_eq!((user.uid, user.gid, user.groups), (1000, 1001, vec![29, 44]));
        assert_eq!((user.name, user.home), (b"grader".to_vec(), b"/home/grader".to_vec()));
    }

    #[test]
    fn a_number_finds_its_entry_or_stands_alone() {
        assert_eq!(found("1000").unwrap().gid, 1001);
        let stranger = found("4242").unwrap();
        assert_eq!((stranger.uid, stranger.gid, stranger.home), (4242, 4242, b"/".to_vec()));
    }

    #[test]
    fn an_explicit_group_is_the_only_one() {
        let user = found("1000:5").unwrap();
        assert_eq!((user.gid, user.groups.len()), (5, 0));
    }

    #[test]
    fn unknown_names_and_nonsense_are_not_found() {
        for text in ["nobody-here", "", "1:2:3", "-1", "+1", "1x", "4294967296", "a b", "x\0y"] {
            assert_eq!(found(text), None, "{text:?}");
        }
    }

    #[test]
    fn an_entry_with_a_nul_byte_is_passed_over() {
        let user = UserName::Name("evil".to_owned());
        assert_eq!(look_up(&user, b"evil:x:0:0::/ro\0ot:/bin/sh\n", b""), None);
    }

    #[test]
    fn a_home_that_is_not_absolute_is_not_used() {
        assert_eq!(found("bare").unwrap().home, b"/");
    }

    proptest! {
        #[test]
        fn hostile_files_never_break_the_look_up(
            passwd in prop::collection::vec(any::<u8>(), 0..200),
            group in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = look_up(&UserName::Name("a".to_owned()), &passwd, &group);
            let _ = look_up(&UserName::Ids { uid: 0, gid: None }, &passwd, &group);
        }
    }
}
