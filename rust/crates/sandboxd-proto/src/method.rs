//! Numbers of the calls in the lean framing. Numbers are only ever added.

use strum::{EnumIter, IntoStaticStr};

/// A call of `proto/sandboxd/agent/v1/`, as the first byte of a request frame's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, IntoStaticStr)]
#[repr(u8)]
pub enum Method {
    SandboxesInfo = 1,
    SandboxesList = 2,
    SandboxesClaim = 3,
    SandboxesRelease = 4,
    SandboxesWarm = 5,
    ExecRun = 16,
    ExecStart = 17,
    ExecAttach = 18,
    ExecWriteStdin = 19,
    ExecSignal = 20,
    ExecList = 21,
    ExecResize = 22,
    FilesRead = 32,
    FilesWrite = 33,
    FilesStat = 34,
    FilesList = 35,
    FilesRemove = 36,
    FilesMakeDir = 37,
    FilesMove = 38,
    FilesAbandon = 39,
    FilesArchive = 40,
    FilesExtract = 41,
    FilesWatch = 42,
}

impl Method {
    /// The method with this number, if this version knows it.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::SandboxesInfo,
            2 => Self::SandboxesList,
            3 => Self::SandboxesClaim,
            4 => Self::SandboxesRelease,
            5 => Self::SandboxesWarm,
            16 => Self::ExecRun,
            17 => Self::ExecStart,
            18 => Self::ExecAttach,
            19 => Self::ExecWriteStdin,
            20 => Self::ExecSignal,
            21 => Self::ExecList,
            22 => Self::ExecResize,
            32 => Self::FilesRead,
            33 => Self::FilesWrite,
            34 => Self::FilesStat,
            35 => Self::FilesList,
            36 => Self::FilesRemove,
            37 => Self::FilesMakeDir,
            38 => Self::FilesMove,
            39 => Self::FilesAbandon,
            40 => Self::FilesArchive,
            41 => Self::FilesExtract,
            42 => Self::FilesWatch,
            _ => return None,
        })
    }

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::IntoEnumIterator as _;

    #[test]
    fn every_method_is_found_by_its_number() {
        for method in Method::iter() {
            assert_eq!(Method::from_number(method.number()), Some(method));
        }
    }
}
