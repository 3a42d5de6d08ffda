//! The environment that a sandbox gives the processes of one user.

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
    for (position, (name, value)) in entries.iter().enumerate() {
        if !entries[position + 1..].iter().any(|(later, _)| later == name) {
            for part in [name, b"=".as_slice(), value, b"\0"] {
                block.extend_from_slice(part);
            }
        }
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
