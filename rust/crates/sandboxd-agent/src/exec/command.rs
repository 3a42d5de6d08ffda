//! What a request asks to run: checked before anything happens, then laid out as init reads it.

use std::borrow::Cow;

use sandboxd_proto::{CallError, ErrorCode, v1};

use super::environment::last_positions;
use super::terminal;
use super::users::UserName;
use crate::call::Answer;

/// Longest argument or environment entry, without its NUL: the kernel's `MAX_ARG_STRLEN` less one.
pub(crate) const MAX_STRING: usize = 131_071;

/// Longest argument list and environment together: what the kernel allows (a quarter of the usual
/// stack limit of 8 MiB), less a page each for the program's path and what the kernel adds.
const MAX_TOTAL: usize = 2 * 1024 * 1024 - 8 * 1024;

/// The kernel counts a pointer for each string too.
const POINTER: usize = 8;

/// Longest path that a system call takes, without its NUL.
const MAX_PATH: usize = 4_095;

/// Runs shell lines.
pub(crate) const SHELL: &[u8] = b"/bin/sh";

/// Pieces of a shell line that is longer than an argument may be. Below [`MAX_STRING`] by the few
/// bytes that a cut may move so as not to split a character.
const PIECE: usize = MAX_STRING - 3;

/// What a terminal of ours understands: that of the person or program at its other end, as far as is
/// known.
const TERM: &[u8] = b"TERM=xterm-256color\0";

/// Refuses a command that could not be started, whatever the sandbox looks like.
///
/// # Errors
///
/// `invalid_argument`, naming the field, its limit and what to change.
pub(crate) fn check(command: &v1::Command) -> Answer<()> {
    match (command.argv.as_slice(), command.shell.as_ref()) {
        ([], []) => {
            return Err(invalid("the command is empty: give a program in argv, or a shell line"));
        }
        ([], line) => check_nul("the shell line", line)?,
        ([program, ..], []) => {
            if program.is_empty() {
                return Err(invalid("argv[0] is empty: name a program"));
            }
            for (position, argument) in command.argv.iter().enumerate() {
                check_string(|| format!("argv[{position}]"), argument, argument.len())?;
            }
        }
        _ => return Err(invalid("give either argv or a shell line, not both")),
    }
    for variable in &command.env {
        check_variable(&variable.name, &variable.value)?;
    }
    check_directory("cwd", &command.cwd)?;
    parse_user(&command.user)?;
    for (field, value) in [
        ("timeout_ns", command.timeout_ns),
        ("idle_output_timeout_ns", command.idle_output_timeout_ns),
        ("cpu_time_limit_ns", command.cpu_time_limit_ns),
    ] {
        if value == Some(0) {
            let what = format!("{field} is 0: leave it out for no limit, or give more than 0");
            return Err(invalid(what));
        }
    }
    if let Some(size) = command.pty {
        terminal::check(size)?;
    }
    if command.grader && command.pty.is_some() {
        return Err(invalid("a grader has no terminal: leave out pty"));
    }
    Ok(())
}

/// Refuses what cannot be in an environment.
///
/// # Errors
///
/// `invalid_argument`, naming the variable.
pub(crate) fn check_variable(name: &[u8], value: &[u8]) -> Answer<()> {
    let shown = || format!("env[{}]", String::from_utf8_lossy(&name[..name.len().min(64)]));
    if name.is_empty() || name.contains(&b'=') {
        return Err(invalid(format!("{}: a name is not empty and has no `=`", shown())));
    }
    check_nul("the name of an env entry", name)?;
    check_string(shown, value, name.len() + 1 + value.len())
}

/// Refuses what cannot be a working directory. Empty means the default one.
///
/// # Errors
///
/// `invalid_argument`, naming `field`.
pub(crate) fn check_directory(field: &str, path: &[u8]) -> Answer<()> {
    check_nul(field, path)?;
    if path.len() > MAX_PATH {
        let length = path.len();
        return Err(invalid(format!("{field} has {length} bytes, above the limit of {MAX_PATH}")));
    }
    if !path.is_empty() && !path.starts_with(b"/") {
        let shown = String::from_utf8_lossy(path);
        return Err(invalid(format!("{field} {shown:?} is not absolute: begin it with `/`")));
    }
    Ok(())
}

/// Reads the user that a request names; empty means the default one.
///
/// # Errors
///
/// `invalid_argument`, when it is no form of a user.
pub(crate) fn parse_user(text: &str) -> Answer<Option<UserName>> {
    if text.is_empty() {
        return Ok(None);
    }
    let shown: String = text.chars().take(64).collect();
    let malformed = || invalid(format!("user {shown:?} is not a `name`, `uid` or `uid:gid`"));
    UserName::parse(text).map(Some).ok_or_else(malformed)
}

/// Arguments, environment and directory of one process, as init reads them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) bytes: Vec<u8>,
    pub(crate) argc: u32,
    pub(crate) envc: u32,
}

impl Payload {
    /// Lays out a command that passed [`check`].
    ///
    /// `environment` is the one that the sandbox gives its user: `NAME=value` entries, each ended
    /// by NUL. The command's own variables replace those of the same name.
    ///
    /// # Errors
    ///
    /// `invalid_argument`, when all of it together is longer than the kernel takes.
    pub(crate) fn new(
        command: &v1::Command,
        environment: &[u8],
        default_cwd: &[u8],
    ) -> Answer<Self> {
        let mut bytes = Vec::with_capacity(environment.len() + 256);
        let string = |bytes: &mut Vec<u8>, parts: &[&[u8]]| {
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            bytes.push(0);
        };
        let mut argc = 0;
        if command.shell.is_empty() {
            for argument in &command.argv {
                string(&mut bytes, &[argument]);
                argc += 1;
            }
        } else {
            for argument in shell_arguments(&command.shell) {
                string(&mut bytes, &[&argument]);
                argc += 1;
            }
        }
        let mut envc = 0;
        if command.pty.is_some() && !has_variable(command, environment, b"TERM") {
            bytes.extend_from_slice(TERM);
            envc += 1;
        }
        let last = last_positions(command.env.iter().map(|variable| &*variable.name));
        for entry in environment.split_inclusive(|byte| *byte == 0) {
            let name = entry.split(|byte| *byte == b'=').next().unwrap_or_default();
            if !last.contains_key(name) {
                bytes.extend_from_slice(entry);
                envc += 1;
            }
        }
        for (position, variable) in command.env.iter().enumerate() {
            if last.get(&*variable.name) == Some(&position) {
                string(&mut bytes, &[&variable.name, b"=", &variable.value]);
                envc += 1;
            }
        }
        let total = bytes.len() + POINTER * (argc + envc);
        if total > MAX_TOTAL {
            return Err(invalid(format!(
                "arguments and environment take {total} bytes, above the limit of {MAX_TOTAL}: \
                 pass the data by stdin or a file"
            )));
        }
        let cwd = if command.cwd.is_empty() { default_cwd } else { &command.cwd };
        string(&mut bytes, &[cwd]);
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Ok(Self { bytes, argc: count(argc), envc: count(envc) })
    }
}

/// Whether a variable is set by the sandbox's environment or by the command.
fn has_variable(command: &v1::Command, environment: &[u8], name: &[u8]) -> bool {
    let mut entries = environment.split(|byte| *byte == 0);
    let is_it = |entry: &[u8]| entry.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="));
    entries.any(is_it) || command.env.iter().any(|variable| *variable.name == *name)
}

/// The arguments that make a shell run `line`, of any length.
///
/// A line beyond the kernel's limit on one argument is handed over in pieces and put together by
/// the shell, which then forgets the pieces, so that the line sees no arguments of its own.
fn shell_arguments(line: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let mut arguments: Vec<Cow<'_, [u8]>> = vec![SHELL.into(), b"-c".into()];
    if line.len() <= MAX_STRING {
        arguments.push(line.into());
        return arguments;
    }
    let pieces = pieces(line);
    let names: String = (1..=pieces.len()).map(|position| format!("${{{position}}}")).collect();
    // One line before the first: the shell counts lines from there in its messages.
    arguments.push(format!("eval \"set --; {names}\"").into_bytes().into());
    arguments.push(SHELL.into());
    arguments.extend(pieces.into_iter().map(Cow::from));
    arguments
}

/// Cuts `line` between characters where it is text, so that a shell that decodes sees whole ones.
fn pieces(line: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while rest.len() > MAX_STRING {
        let continues = |byte: &u8| byte & 0xc0 == 0x80;
        let back = rest[PIECE - 3..=PIECE].iter().rev().take_while(|byte| continues(byte)).count();
        let (piece, after) = rest.split_at(PIECE - if back > 3 { 0 } else { back });
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

fn check_string(name: impl Fn() -> String, value: &[u8], length: usize) -> Answer<()> {
    if length > MAX_STRING {
        return Err(invalid(format!(
            "{} has {length} bytes, above the kernel's limit of {MAX_STRING}: pass the data by \
             stdin or a file",
            name()
        )));
    }
    if value.contains(&0) {
        return Err(invalid(format!("{} has a NUL byte", name())));
    }
    Ok(())
}

fn check_nul(name: &str, value: &[u8]) -> Answer<()> {
    if value.contains(&0) { Err(invalid(format!("{name} has a NUL byte"))) } else { Ok(()) }
}

fn invalid(message: impl Into<String>) -> CallError {
    CallError::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn argv(arguments: &[&[u8]]) -> v1::Command {
        let argv = arguments.iter().map(|argument| Bytes::copy_from_slice(argument)).collect();
        v1::Command { argv, ..Default::default() }
    }

    fn variable(name: &str, value: &str) -> v1::ExecEnvVar {
        let copy = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        v1::ExecEnvVar { name: copy(name), value: copy(value) }
    }

    fn refusal(command: &v1::Command) -> String {
        let error = check(command).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        error.message
    }

    #[test]
    fn bad_commands_are_refused_with_the_field_and_the_limit() {
        assert!(refusal(&v1::Command::default()).contains("empty"));
        assert!(refusal(&argv(&[b""])).contains("argv[0]"));
        assert!(refusal(&argv(&[b"echo", b"a\0b"])).contains("argv[1] has a NUL"));
        let long = vec![b'x'; MAX_STRING + 1];
        let message = refusal(&argv(&[b"echo", &long]));
        assert!(message.contains("argv[1]") && message.contains("131071"), "{message}");
        let both = v1::Command { shell: Bytes::from_static(b"x"), ..argv(&[b"x"]) };
        assert!(refusal(&both).contains("not both"));
        let zero = v1::Command { timeout_ns: Some(0), ..argv(&[b"x"]) };
        assert!(refusal(&zero).contains("timeout_ns"));
        let relative = v1::Command { cwd: Bytes::from_static(b"tmp"), ..argv(&[b"x"]) };
        assert!(refusal(&relative).contains("absolute"));
        let user = v1::Command { user: "a b".to_owned(), ..argv(&[b"x"]) };
        assert!(refusal(&user).contains("user"));
        for name in ["", "A=B", "A\0"] {
            let env = vec![variable(name, "x")];
            refusal(&v1::Command { env, ..argv(&[b"x"]) });
        }
        let env = vec![variable("BIG", &"v".repeat(MAX_STRING))];
        assert!(refusal(&v1::Command { env, ..argv(&[b"x"]) }).contains("env[BIG]"));
    }

    #[test]
    fn the_longest_argument_passes() {
        let longest = vec![b'x'; MAX_STRING];
        let command = argv(&[b"echo", &longest]);
        check(&command).unwrap();
        Payload::new(&command, b"", b"/").unwrap();
    }

    #[test]
    fn all_arguments_together_have_a_limit() {
        let long = vec![b'x'; MAX_STRING];
        let command = argv(&[long.as_slice(); 17]);
        check(&command).unwrap();
        assert!(Payload::new(&command, b"", b"/").is_err());
    }

    #[test]
    fn variables_of_the_command_replace_those_of_the_sandbox() {
        let env = vec![variable("A", "first"), variable("B", "new"), variable("A", "last")];
        let command = v1::Command { env, ..argv(&[b"true"]) };
        let payload = Payload::new(&command, b"PATH=/bin\0B=old\0", b"/root").unwrap();
        assert_eq!(payload.bytes, b"true\0PATH=/bin\0B=new\0A=last\0/root\0");
        assert_eq!((payload.argc, payload.envc), (1, 3));
    }

    #[test]
    fn a_terminal_has_a_kind_unless_somebody_names_another() {
        let payload = |env: Vec<v1::ExecEnvVar>, given: &[u8]| {
            let pty = Some(v1::Pty::default());
            let command = v1::Command { env, pty, ..argv(&[b"true"]) };
            Payload::new(&command, given, b"/").unwrap().bytes
        };
        assert_eq!(payload(vec![], b"A=1\0"), b"true\0TERM=xterm-256color\0A=1\0/\0");
        assert_eq!(payload(vec![], b"TERM=vt100\0"), b"true\0TERM=vt100\0/\0");
        assert_eq!(payload(vec![variable("TERM", "dumb")], b""), b"true\0TERM=dumb\0/\0");
    }

    #[test]
    fn very_many_variables_are_merged_in_no_time() {
        let named = |number: u32| variable(&format!("V{number}"), "");
        let env = (0..100_000).map(named).collect();
        let command = v1::Command { env, ..argv(&[b"true"]) };
        let given: Vec<u8> =
            (1..=100_000).flat_map(|number| format!("V{number}=old\0").into_bytes()).collect();
        let payload = Payload::new(&command, &given, b"/").unwrap();
        assert_eq!(payload.envc, 100_001);
    }

    #[test]
    fn a_shell_line_becomes_arguments_of_sh() {
        let command = v1::Command { shell: Bytes::from_static(b"exit 3"), ..Default::default() };
        let payload = Payload::new(&command, b"", b"/tmp").unwrap();
        assert_eq!(payload.bytes, b"/bin/sh\0-c\0exit 3\0/tmp\0");
        assert_eq!((payload.argc, payload.envc), (3, 0));
    }

    #[test]
    fn a_long_line_runs_as_one_line_without_arguments() {
        let padding = "é".repeat(200_000);
        let line = format!(": {padding}\nprintf '%s:%s' \"$#\" \"$0\"; exit 7");
        let arguments = shell_arguments(line.as_bytes());
        assert!(arguments.iter().all(|argument| argument.len() <= MAX_STRING));
        let mut shell = std::process::Command::new("/bin/sh");
        for argument in &arguments[1..] {
            shell.arg(std::str::from_utf8(argument).unwrap());
        }
        let output = shell.output().unwrap();
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(output.stdout, b"0:/bin/sh");
    }

    proptest! {
        #[test]
        fn of_several_variables_of_one_name_the_last_stays_in_its_place(
            given in prop::collection::btree_map("[A-F]", "[0-9]", 0..6),
            own in prop::collection::vec(("[A-F]", "[0-9]"), 0..12),
        ) {
            let mut naive = b"true\0".to_vec();
            for (name, value) in &given {
                if !own.iter().any(|(other, _)| other == name) {
                    naive.extend(format!("{name}={value}\0").into_bytes());
                }
            }
            for (position, (name, value)) in own.iter().enumerate() {
                if !own[position + 1..].iter().any(|(other, _)| other == name) {
                    naive.extend(format!("{name}={value}\0").into_bytes());
                }
            }
            naive.extend(b"/\0");
            let environment: String =
                given.iter().map(|(name, value)| format!("{name}={value}\0")).collect();
            let env = own.iter().map(|(name, value)| variable(name, value)).collect();
            let command = v1::Command { env, ..argv(&[b"true"]) };
            let payload = Payload::new(&command, environment.as_bytes(), b"/").unwrap();
            prop_assert_eq!(payload.bytes, naive);
        }

        #[test]
        fn pieces_of_a_line_are_the_line(
            seed in prop::collection::vec(any::<u8>(), 1..40),
            length in MAX_STRING..3 * MAX_STRING,
        ) {
            let line: Vec<u8> = seed.into_iter().cycle().take(length).collect();
            let pieces = pieces(&line);
            prop_assert!(pieces.iter().all(|piece| piece.len() <= MAX_STRING));
            prop_assert_eq!(pieces.concat(), line);
        }
    }
}
