//! The environment that a sandbox gives the processes of one user.

use std::collections::HashMap;

use super::users::User;

const PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What numeric libraries read to choose their number of threads. Most count the machine's CPUs
/// otherwise, and start more threads than the sandbox may run.
const THREAD_COUNTS: [&str; 5] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "RAYON_NUM_THREADS",
];

/// Lays out `NAME=value` entries, each ended by NUL; `claimed` ones replace ours.
///
/// Nothing of the machine's environment is in it. `cpus` is given when the sandbox has a limit.
pub(crate) fn environment(
    user: &User,
    cpus: Option<u32>,
    claimed: &[(Vec<u8>, Vec<u8>)],
) -> Vec<u8> {
    let mut entries: Vec<(&[u8], &[u8])> = vec![
        (b"PATH", PATH),
        (b"HOME", &user.home),
        (b"USER", &user.name),
        (b"LOGNAME", &user.name),
        (b"LANG", b"C.UTF-8"),
    ];
    if !user.shell.is_empty() {
        entries.push((b"SHELL", &user.shell));
    }
    let cpus = cpus.map(|cpus| cpus.to_string());
    if let Some(cpus) = &cpus {
        entries.extend(THREAD_COUNTS.map(|name| (name.as_bytes(), cpus.as_bytes())));
    }
    entries.extend(claimed.iter().map(|(name, value)| (name.as_slice(), value.as_slice())));
    let mut block = Vec::with_capacity(256);
    let last = last_positions(entries.iter().map(|(name, _)| *name));
    for (position, (name, value)) in entries.iter().enumerate() {
        if last.get(name) == Some(&position) {
            for part in [name, b"=".as_slice(), value, b"\0"] {
                block.extend_from_slice(part);
            }
        }
    }
    block
}

/// Where each name comes last: of several variables of one name, that one counts.
///
/// Takes time in proportion to the names, of which a caller may send very many.
pub(super) fn last_positions<'a>(
    names: impl Iterator<Item = &'a [u8]>,
) -> HashMap<&'a [u8], usize> {
    names.enumerate().map(|(position, name)| (name, position)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(pairs: &[(String, u8)]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let bytes = |(name, value): &(String, u8)| (name.clone().into_bytes(), vec![b'0' + value]);
        pairs.iter().map(bytes).collect()
    }

    fn user() -> User {
        User {
            uid: 0,
            gid: 0,
            groups: Vec::new(),
            name: b"root".to_vec(),
            home: b"/root".to_vec(),
            shell: Vec::new(),
        }
    }

    #[test]
    fn the_claim_replaces_what_is_given_by_default() {
        let claimed = [(b"LANG".to_vec(), b"C".to_vec()), (b"X".to_vec(), b"1".to_vec())];
        let block = environment(&user(), None, &claimed);
        let text = String::from_utf8(block).unwrap();
        assert!(text.contains("HOME=/root\0"));
        assert!(text.contains("LANG=C\0") && !text.contains("UTF-8"));
        assert!(text.ends_with("X=1\0"));
        assert!(!text.contains("OMP_NUM_THREADS"));
    }

    #[test]
    fn a_share_of_the_cpus_is_told_to_libraries_that_count_them() {
        let text = String::from_utf8(environment(&user(), Some(1), &[])).unwrap();
        assert!(text.contains("OMP_NUM_THREADS=1\0"));
    }

    #[test]
    fn very_many_variables_are_merged_in_no_time() {
        let claimed: Vec<_> = (0..100_000).map(|number| (format!("V{number}"), 1)).collect();
        let block = environment(&user(), None, &pairs(&claimed));
        assert_eq!(block.iter().filter(|byte| **byte == 0).count(), 5 + claimed.len());
    }

    proptest! {
        #[test]
        fn of_several_variables_of_one_name_the_last_stays_in_its_place(
            claimed in prop::collection::vec(("[A-D]|LANG|HOME", 0_u8..10), 0..20),
        ) {
            let claimed = pairs(&claimed);
            let mut all = environment(&user(), None, &[]);
            for (name, value) in &claimed {
                all.extend([name, b"=".as_slice(), value, b"\0"].concat());
            }
            let entries: Vec<&[u8]> = all.split_inclusive(|byte| *byte == 0).collect();
            let name = |entry: &[u8]| entry.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
            let mut naive = Vec::new();
            for (position, entry) in entries.iter().enumerate() {
                if !entries[position + 1..].iter().any(|later| name(later) == name(entry)) {
                    naive.extend_from_slice(entry);
                }
            }
            prop_assert_eq!(environment(&user(), None, &claimed), naive);
        }
    }
}
