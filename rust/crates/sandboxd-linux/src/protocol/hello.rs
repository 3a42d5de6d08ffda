//! The launcher's first word: which build it is of.
//!
//! Agent and init are installed together, but a path can be set wrongly, and an upgrade may replace
//! one of them beneath a running agent. The rest of the protocol has no version: two builds whose
//! formats differ would misread each other. The form of this one packet never changes.

/// How the packet begins.
const MARK: &[u8; 8] = b"sandboxd";

/// Longest release that is read from a packet.
const MAX_RELEASE: usize = 64;

/// A build, as far as agent and init have to agree on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Hash of the source of the protocol.
    pub format: u64,
    /// For people.
    pub release: String,
}

impl Hello {
    /// What this build says.
    #[must_use]
    pub fn of_this_build() -> Self {
        Self { format: FORMAT, release: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Whether the two builds understand each other.
    #[must_use]
    pub fn understands(&self, other: &Self) -> bool {
        self == other
    }

    /// The packet for it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        [MARK, &self.format.to_le_bytes()[..], self.release.as_bytes()].concat()
    }

    /// Reads a packet; `None` if it is not one of these, as from a build before there were any.
    #[must_use]
    pub fn decode(packet: &[u8]) -> Option<Self> {
        let (format, release) = packet.strip_prefix(MARK)?.split_first_chunk()?;
        let release = std::str::from_utf8(release).ok().filter(|text| text.len() <= MAX_RELEASE)?;
        Some(Self { format: u64::from_le_bytes(*format), release: release.to_owned() })
    }
}

/// Another one for every change of the sources, if only of a comment: builds are meant to be the same.
const FORMAT: u64 = {
    let hash = fnv(0xcbf2_9ce4_8422_2325, include_bytes!("../protocol.rs"));
    let hash = fnv(hash, include_bytes!("packet.rs"));
    fnv(hash, include_bytes!("hello.rs"))
};

/// FNV-1a.
const fn fnv(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_understands_itself_and_no_other() {
        let own = Hello::of_this_build();
        assert!(own.understands(&Hello::decode(&own.encode()).unwrap()));
        assert!(!own.understands(&Hello { format: own.format ^ 1, ..own.clone() }));
        assert!(!own.understands(&Hello { release: "0.0.0".to_owned(), ..own.clone() }));
    }

    #[test]
    fn what_an_older_launcher_would_say_is_no_hello() {
        for packet in [&b""[..], b"sandboxd", b"sandboxd1234567", &[1; 32], &[b's'; 4096]] {
            assert_eq!(Hello::decode(packet), None);
        }
    }

    #[test]
    fn the_hash_is_the_one_that_is_published() {
        // The test vector of FNV-1a for "foobar".
        assert_eq!(fnv(0xcbf2_9ce4_8422_2325, b"foobar"), 0x8594_4171_f739_67e8);
    }
}
