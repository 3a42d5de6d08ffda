//! Compiles the table into a program of the kernel's packet filter, and installs it.
//!
//! The program is a binary search over system call numbers. The kernel runs a new filter once for
//! every system call there is, to learn which it always allows; with a list of comparisons that costs
//! more than everything else about it.

use std::io;

use super::table::{ARCHITECTURE, LAST_REVIEWED, Rule, rules};
use crate::syscall::check;

/// Offsets in the kernel's `seccomp_data`.
const NUMBER: u32 = 0;
const MACHINE: u32 = 4;
const FIRST_ARGUMENT: u32 = 16;

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = ERRNO | 1;
const ENOSYS: u32 = ERRNO | 38;

/// A compiled filter.
#[derive(Debug)]
pub struct Filter {
    program: Vec<libc::sock_filter>,
}

/// What applies from one system call number to the next segment's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    first: u32,
    action: Action,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Return(u32),
    Apply(Rule),
}

impl Default for Filter {
    fn default() -> Self {
        Self::new()
    }
}

impl Filter {
    /// Compiles the filter for this machine's architecture.
    #[must_use]
    pub fn new() -> Self {
        let mut program = vec![
            instruction(LOAD, 0, 0, MACHINE),
            // Another architecture's numbers mean other calls: 32-bit programs are killed.
            instruction(JUMP_IF_EQUAL, 1, 0, ARCHITECTURE),
            instruction(RETURN, 0, 0, KILL_PROCESS),
            instruction(LOAD, 0, 0, NUMBER),
        ];
        program.extend(search(&segments()));
        Self { program }
    }

    /// Puts the filter on this process and everything that it starts, for good.
    ///
    /// # Errors
    ///
    /// Without both `CAP_SYS_ADMIN` in the user namespace and `no_new_privs`.
    pub fn install(&self) -> io::Result<()> {
        let program = libc::sock_fprog {
            len: u16::try_from(self.program.len()).unwrap_or(u16::MAX),
            filter: self.program.as_ptr().cast_mut(),
        };
        // SAFETY: length and pointer are of one vector, which the kernel only reads.
        let answer = unsafe {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0)
        };
        check(answer.into())?;
        Ok(())
    }
}

/// The whole number space, in order, neighbours with the same action joined.
fn segments() -> Vec<Segment> {
    let mut segments = vec![Segment { first: 0, action: Action::Return(ALLOW) }];
    let mut push = |first: u32, action: Action| {
        let last = segments.last_mut();
        match last {
            Some(last) if last.first == first => last.action = action,
            Some(last) if last.action == action => {}
            _ => segments.push(Segment { first, action }),
        }
    };
    for (number, rule) in rules() {
        let action = match rule {
            Rule::Deny => Action::Return(EPERM),
            rule => Action::Apply(rule),
        };
        push(number, action);
        push(number + 1, Action::Return(ALLOW));
    }
    // Also every number of the x32 interface, which has a high bit set.
    push(LAST_REVIEWED + 1, Action::Return(ENOSYS));
    // An allowed gap of no length, between two neighbours, was overwritten in place; if both are
    // denied it leaves two equal segments.
    segments.dedup_by_key(|segment| segment.action);
    segments
}

fn search(segments: &[Segment]) -> Vec<libc::sock_filter> {
    let (left, right) = segments.split_at(segments.len() / 2);
    let [first, ..] = right else { return Vec::new() };
    if left.is_empty() {
        return act(first.action);
    }
    let left = search(left);
    // Jumps reach 255 instructions; the whole program is shorter than that.
    let over = u8::try_from(left.len()).unwrap_or(u8::MAX);
    let mut program = vec![instruction(JUMP_IF_AT_LEAST, over, 0, first.first)];
    program.extend(left);
    program.extend(search(right));
    program
}

fn act(action: Action) -> Vec<libc::sock_filter> {
    let rule = match action {
        Action::Return(value) => return vec![instruction(RETURN, 0, 0, value)],
        Action::Apply(rule) => rule,
    };
    // Each jump goes to the second of the two returns at the end.
    let (argument, jump, values, returns) = match &rule {
        Rule::Deny => return vec![instruction(RETURN, 0, 0, EPERM)],
        Rule::DenyIfEitherEqual { first, second } => return either_equal(*first, *second),
        Rule::DenyIfEqual { argument, values } => {
            (argument, JUMP_IF_EQUAL, *values, [ALLOW, EPERM])
        }
        Rule::DenyUnlessEqual { argument, values } => {
            (argument, JUMP_IF_EQUAL, *values, [EPERM, ALLOW])
        }
        Rule::DenyIfAnyBit { argument, bits } => {
            (argument, JUMP_IF_ANY_BIT, std::slice::from_ref(bits), [ALLOW, EPERM])
        }
    };
    let mut program = vec![instruction(LOAD, 0, 0, FIRST_ARGUMENT + 8 * argument)];
    for (index, value) in values.iter().enumerate() {
        let over = u8::try_from(values.len() - index).unwrap_or(u8::MAX);
        program.push(instruction(jump, over, 0, *value));
    }
    program.extend(returns.map(|value| instruction(RETURN, 0, 0, value)));
    program
}

fn either_equal(first: (u32, u32), second: (u32, u32)) -> Vec<libc::sock_filter> {
    let [(first, denied), (second, also_denied)] = [first, second];
    vec![
        instruction(LOAD, 0, 0, FIRST_ARGUMENT + 8 * first),
        instruction(JUMP_IF_EQUAL, 3, 0, denied),
        instruction(LOAD, 0, 0, FIRST_ARGUMENT + 8 * second),
        instruction(JUMP_IF_EQUAL, 1, 0, also_denied),
        instruction(RETURN, 0, 0, ALLOW),
        instruction(RETURN, 0, 0, EPERM),
    ]
}

const fn instruction(code: u16, if_true: u8, if_false: u8, operand: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: if_true, jf: if_false, k: operand }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs the program as the kernel does; also says how many instructions that took.
    fn run(filter: &Filter, machine: u32, number: u32, arguments: [u64; 6]) -> (u32, usize) {
        let word = |offset: u32| match offset {
            NUMBER => number,
            MACHINE => machine,
            offset => {
                let value = arguments[(offset as usize - 16) / 8];
                u32::try_from(value & 0xffff_ffff).unwrap()
            }
        };
        let (mut at, mut steps, mut accumulator) = (0, 0, 0);
        loop {
            let step = filter.program[at];
            steps += 1;
            let jump = |taken: bool| usize::from(if taken { step.jt } else { step.jf });
            at += 1;
            match step.code {
                LOAD => accumulator = word(step.k),
                JUMP_IF_EQUAL => at += jump(accumulator == step.k),
                JUMP_IF_AT_LEAST => at += jump(accumulator >= step.k),
                JUMP_IF_ANY_BIT => at += jump(accumulator & step.k != 0),
                RETURN => return (step.k, steps),
                code => panic!("unknown instruction {code:#x}"),
            }
        }
    }

    fn expected(number: u32, arguments: [u64; 6]) -> u32 {
        if number > LAST_REVIEWED {
            return ENOSYS;
        }
        let Some((_, rule)) = rules().into_iter().find(|(ruled, _)| *ruled == number) else {
            return ALLOW;
        };
        let low = |argument: u32| (arguments[argument as usize] & 0xffff_ffff) as u32;
        let denied = match rule {
            Rule::Deny => true,
            Rule::DenyIfEqual { argument, values } => values.contains(&low(argument)),
            Rule::DenyUnlessEqual { argument, values } => !values.contains(&low(argument)),
            Rule::DenyIfAnyBit { argument, bits } => low(argument) & bits != 0,
            Rule::DenyIfEitherEqual { first, second } => {
                [first, second].iter().any(|(argument, value)| low(*argument) == *value)
            }
        };
        if denied { EPERM } else { ALLOW }
    }

    #[test]
    fn every_number_gets_what_the_table_says() {
        let filter = Filter::new();
        for number in 0..1_000 {
            let (got, _) = run(&filter, ARCHITECTURE, number, [0; 6]);
            assert_eq!(got, expected(number, [0; 6]), "system call {number}");
        }
    }

    #[test]
    fn another_architecture_is_killed_and_x32_does_not_exist() {
        let filter = Filter::new();
        assert_eq!(run(&filter, 0x4000_0003, 1, [0; 6]).0, KILL_PROCESS);
        assert_eq!(run(&filter, ARCHITECTURE, 0x4000_0001, [0; 6]).0, ENOSYS);
    }

    #[test]
    fn the_search_is_short_and_jumps_reach() {
        let filter = Filter::new();
        assert!(filter.program.len() < 255, "{}", filter.program.len());
        let deepest =
            (0..=LAST_REVIEWED).map(|number| run(&filter, ARCHITECTURE, number, [0; 6]).1).max();
        assert!(deepest < Some(20), "{deepest:?}");
    }

    #[test]
    fn no_system_call_has_two_rules() {
        let rules = rules();
        assert!(rules.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(rules.iter().all(|(number, _)| *number <= LAST_REVIEWED));
    }

    #[test]
    fn init_keeps_its_priority_and_others_may_change_theirs() {
        let filter = Filter::new();
        let number = u32::try_from(libc::SYS_setpriority).unwrap();
        let set = |which, who| run(&filter, ARCHITECTURE, number, [which, who, 19, 0, 0, 0]).0;
        let (process, group, user) = (0, 1, 2);
        assert_eq!([set(process, 0), set(process, 7), set(group, 0)], [ALLOW; 3]);
        assert_eq!([set(process, 1), set(group, 1), set(user, 0), set(user, 7)], [EPERM; 4]);
    }

    proptest! {
        #[test]
        fn arguments_get_what_the_table_says(
            index in 0..super::super::table::rules().len(),
            low in prop_oneof![any::<u32>(), 0_u32..64, Just(0x5412), Just(0x1000_0000)],
            high in any::<u32>(),
        ) {
            let number = rules()[index].0;
            let arguments = [u64::from(high) << 32 | u64::from(low); 6];
            let (got, _) = run(&Filter::new(), ARCHITECTURE, number, arguments);
            prop_assert_eq!(got, expected(number, arguments));
        }
    }
}
