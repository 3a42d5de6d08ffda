//! `clone3`, in the two shapes that launcher and init need.
//!
//! [`fork`] gives a child with a copy of the memory; [`vfork`] one that shares it and holds the
//! parent up until it ends or becomes another program. Both go past the C library, so nothing in the
//! child may rely on its threads or its cached thread id. The caller has a single thread.

use std::arch::asm;
use std::ffi::c_void;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use crate::memory::Region;
use crate::syscall::check;

/// Resets handled signals to their default in the child, which then cannot run the parent's handlers
/// on shared memory.
const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// `struct clone_args` of the kernel, as of 5.7.
#[repr(C, align(8))]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
    set_tid: u64,
    set_tid_size: u64,
    cgroup: u64,
}

/// What the child gets.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options<'a> {
    /// New namespaces: `CLONE_NEW*`.
    pub namespaces: i32,
    /// Be a sibling of the caller: its parent becomes the child's, and gets the caller's own exit
    /// signal.
    pub parent: bool,
    /// Start in this v2 group.
    pub cgroup: Option<BorrowedFd<'a>>,
}

impl Options<'_> {
    #[expect(clippy::cast_sign_loss, reason = "flags and descriptors are not negative")]
    fn arguments(self) -> CloneArgs {
        let mut flags = self.namespaces as u64;
        if self.parent {
            flags |= libc::CLONE_PARENT as u64;
        }
        if self.cgroup.is_some() {
            flags |= CLONE_INTO_CGROUP;
        }
        CloneArgs {
            flags,
            // The kernel insists: a sibling inherits the exit signal.
            exit_signal: if self.parent { 0 } else { libc::SIGCHLD as u64 },
            cgroup: self.cgroup.map_or(0, |directory| directory.as_raw_fd() as u64),
            ..CloneArgs::default()
        }
    }
}

/// Makes a child with a copy of this process. Returns its pid in the parent and `None` in the child.
///
/// # Safety
///
/// The process has a single thread, or the child calls nothing but async-signal-safe functions.
///
/// # Errors
///
/// As `clone3`.
pub unsafe fn fork(options: Options<'_>) -> io::Result<Option<u32>> {
    let arguments = options.arguments();
    // SAFETY: no stack is given and no memory is shared, so this returns twice as fork does; the
    // arguments outlive the call and have the size that is passed.
    let answer =
        unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<CloneArgs>()) };
    let pid = u32::try_from(check(answer)?).unwrap_or(0);
    Ok((pid != 0).then_some(pid))
}

/// Memory for the stack of one [`vfork`] child at a time, with a guard page beneath it.
#[derive(Debug)]
pub struct Stack(Region);

impl Stack {
    /// Reserves a stack. Pages that are never touched cost nothing.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    pub fn new(size: usize) -> io::Result<Self> {
        Region::stack(size).map(Self)
    }
}

/// Runs `body` in a child that shares all memory with this process, and waits until the child has
/// ended or become another program. Returns its pid. What `body` returns is the exit code.
///
/// # Safety
///
/// The process has a single thread. `body` allocates nothing, takes no lock, does not unwind and
/// leaves the memory that it shares in a state that the caller can go on with.
///
/// # Errors
///
/// As `clone3`.
pub unsafe fn vfork<F: FnMut() -> i32>(
    options: Options<'_>,
    stack: &mut Stack,
    body: &mut F,
) -> io::Result<u32> {
    let mut arguments = options.arguments();
    arguments.flags |= (libc::CLONE_VM | libc::CLONE_VFORK) as u64 | CLONE_CLEAR_SIGHAND;
    arguments.stack = stack.0.as_ptr() as u64;
    // The kernel starts at the upper end, which is page-aligned. Both architectures want 16 bytes:
    // a stack that was not crashed in `movaps` long before the program started.
    arguments.stack_size = stack.0.length() as u64;
    // SAFETY: the stack is ours until the parent goes on; `run::<F>` matches the type of `body`.
    let answer = unsafe { call(&mut arguments, std::ptr::from_mut(body).cast(), run::<F>) };
    match u32::try_from(answer) {
        Ok(pid) => Ok(pid),
        Err(_) => Err(io::Error::from_raw_os_error(i32::try_from(-answer).unwrap_or(libc::EIO))),
    }
}

/// First function of a [`vfork`] child, on its own stack.
unsafe extern "C" fn run<F: FnMut() -> i32>(body: *mut c_void) -> ! {
    // SAFETY: `vfork` passes the pointer to its `body`, which it borrows until the child is gone.
    let body = unsafe { &mut *body.cast::<F>() };
    let code = body();
    // SAFETY: ends only the child, without running the parent's exit handlers.
    unsafe { libc::_exit(code) }
}

/// The system call. The child must not return into this frame, whose stack it does not have: it
/// calls `entry` and never comes back.
#[cfg(target_arch = "x86_64")]
unsafe fn call(
    arguments: &mut CloneArgs,
    body: *mut c_void,
    entry: unsafe extern "C" fn(*mut c_void) -> !,
) -> i64 {
    let answer: i64;
    // SAFETY: the registers that the system call changes are declared; in the child, only registers
    // are read before `entry` is called on the new stack.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => answer,
            in("rdi") std::ptr::from_mut(arguments),
            in("rsi") size_of::<CloneArgs>(),
            in("r12") body,
            in("r13") entry,
            out("rcx") _,
            out("r11") _,
        );
    }
    answer
}

/// The same for 64-bit ARM.
#[cfg(target_arch = "aarch64")]
unsafe fn call(
    arguments: &mut CloneArgs,
    body: *mut c_void,
    entry: unsafe extern "C" fn(*mut c_void) -> !,
) -> i64 {
    let answer: i64;
    // SAFETY: the kernel keeps every register but x0; in the child, only registers are read before
    // `entry` is called on the new stack.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "mov x0, x20",
            "blr x21",
            "brk #0",
            "2:",
            in("x8") libc::SYS_clone3,
            inlateout("x0") std::ptr::from_mut(arguments) as i64 => answer,
            in("x1") size_of::<CloneArgs>(),
            in("x20") body,
            in("x21") entry,
        );
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit_code(pid: u32) -> i32 {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let waited = unsafe { libc::waitpid(pid.cast_signed(), &raw mut status, 0) };
        assert_eq!(waited, pid.cast_signed());
        libc::WEXITSTATUS(status)
    }

    #[test]
    fn a_vforked_child_shares_memory_and_ends_with_its_code() {
        let mut stack = Stack::new(64 * 1024).unwrap();
        let mut seen = 0;
        let mut body = || {
            seen = 41;
            7
        };
        // SAFETY: the body touches a local and returns.
        let pid = unsafe { vfork(Options::default(), &mut stack, &mut body) }.unwrap();
        assert_eq!(exit_code(pid), 7);
        assert_eq!(seen, 41);
    }

    #[test]
    fn the_stack_of_a_child_is_aligned() {
        let mut stack = Stack::new(64 * 1024).unwrap();
        let mut address = 1;
        let mut body = || {
            // Spilled with aligned moves when optimized.
            let local = std::hint::black_box([0_u128; 4]);
            address = std::ptr::from_ref(&local) as usize;
            0
        };
        // SAFETY: the body touches locals and returns.
        let pid = unsafe { vfork(Options::default(), &mut stack, &mut body) }.unwrap();
        assert_eq!(exit_code(pid), 0);
        assert_eq!(address % 16, 0);
    }

    #[test]
    fn an_impossible_clone_says_why() {
        let mut stack = Stack::new(64 * 1024).unwrap();
        let options = Options { namespaces: libc::CLONE_THREAD, ..Options::default() };
        // SAFETY: the kernel refuses before there is a child.
        let error = unsafe { vfork(options, &mut stack, &mut || 0) }.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
