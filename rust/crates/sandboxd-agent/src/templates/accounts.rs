//! The accounts of a sandbox: the machine's, without whatever is about people.

use std::path::Path;

/// First id of people, on every current distribution.
const FIRST_PERSON: u32 = 1_000;
const NOBODY: u32 = 65_534;

fn is_system_account(id: &str) -> bool {
    id.parse().is_ok_and(|id: u32| id < FIRST_PERSON || id == NOBODY)
}

/// The system's accounts, without people, passwords and comments. A `*` for the password and not
/// an `x`: that would refer to a shadow file, without which `su` refuses every account.
pub(super) fn users(passwd: &str) -> String {
    let mut kept = String::new();
    for line in passwd.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, uid, gid, _, home, shell] = fields[..] else { continue };
        // Root is written below, with the home that exists inside.
        if uid != "0" && is_system_account(uid) && is_system_account(gid) {
            kept += &format!("{name}:*:{uid}:{gid}::{home}:{shell}\n");
        }
    }
    let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
    format!("root:*:0:0:root:/root:{shell}\n{kept}")
}

/// The system's groups, without members.
pub(super) fn groups(group: &str) -> String {
    let mut kept = String::from("root:*:0:\n");
    for line in group.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, gid, _] = fields[..] else { continue };
        if gid != "0" && is_system_account(gid) {
            kept += &format!("{name}:*:{gid}:\n");
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_lose_people_passwords_comments_and_members() {
        let passwd = "root:$6$hash:0:0:Admin:/root:/bin/zsh\n\
                      daemon:x:1:1:Daemon, Room 4:/usr/sbin:/usr/sbin/nologin\n\
                      ada:x:1000:1000:Ada:/home/ada:/bin/bash\n\
                      nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n\
                      broken line\n";
        let users = users(passwd);
        assert!(users.starts_with("root:*:0:0:root:/root:/bin/"));
        assert!(users.contains("daemon:*:1:1::/usr/sbin:/usr/sbin/nologin\n"));
        assert!(users.contains("nobody:*:65534:65534::"));
        for gone in ["hash", "ada", "Room", "broken", "zsh"] {
            assert!(!users.contains(gone), "{gone}");
        }
        let groups = groups("root:x:0:ada\nsudo:x:27:ada,bob\nada:x:1000:\n");
        assert_eq!(groups, "root:*:0:\nsudo:*:27:\n");
    }
}
