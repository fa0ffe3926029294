//! UNSAFE room 3 (libc): notices of seccomp, by which a confined process asks its router to connect for it, to change
//! the metadata of a file for it, and whether one more process may begin.
//!
//! The confined side makes a listener and hands it to the router; the router receives notices, looks at the
//! call that each stands for, and answers it. A filter only sees registers: what a pointer leads to is read
//! here, once, and whoever judges it acts on that copy and never on the memory of the other process.

use std::ffi::CString;
use std::fs::read_to_string;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags};
use seccompiler::BpfProgram;

/// What a rule of a filter gives as its action to say that the call is a notice: `SeccompAction::Trace(MARK)`.
pub(crate) const MARK: u32 = 0x6e78;

/// What every connect to port 0 is answered with, if the router can do all that its answers need.
const NOWHERE: Errno = Errno::ADDRNOTAVAIL;

/// The smallest page of memory that any machine has.
const PAGE: usize = 4096;
/// Bytes of the longest path that the kernel takes, with the zero at its end.
const LONGEST_PATH: usize = 4096;

/// Installs a filter in which [`MARK`] stands for a notice, and returns the listener. It binds the calling
/// thread and those it starts. New privileges must have been given up before.
pub(crate) fn listen(filter: &BpfProgram) -> io::Result<OwnedFd> {
    let marked = libc::SECCOMP_RET_TRACE | MARK;
    let ret = u16::try_from(libc::BPF_RET | libc::BPF_K).map_err(io::Error::other)?;
    let mut program: Vec<libc::sock_filter> = filter
        .iter()
        .map(|step| libc::sock_filter {
            code: step.code,
            jt: step.jt,
            jf: step.jf,
            k: match step.k {
                k if step.code == ret && k == marked => libc::SECCOMP_RET_USER_NOTIF,
                k => k,
            },
        })
        .collect();
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // A signal must not take a call back while it is being answered: it would be made a second time. Kernels
    // before 5.19 cannot promise that.
    let patient = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    install(&program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | patient).or_else(|error| match error
        .raw_os_error()
    {
        Some(libc::EINVAL) => install(&program, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER),
        _ => Err(error),
    })
}

#[expect(unsafe_code, reason = "no safe interface installs a filter with a listener")]
fn install(program: &libc::sock_fprog, flags: libc::c_ulong) -> io::Result<OwnedFd> {
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    let program: *const libc::sock_fprog = program;
    // SAFETY: the program and its steps live until the call returns; the kernel copies and checks them.
    let made = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, program) };
    let made = RawFd::try_from(made).map_err(io::Error::other)?;
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel made this descriptor for us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

/// Finds out, in a confined process, whether its router really answers notices: whether it may read the
/// memory of this process and reach its sockets. Call it before foreign code runs.
///
/// Containers, Yama and the like forbid those in their own ways; trying is the only proof.
pub(crate) fn probe() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    match rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)) {
        Err(NOWHERE) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Err(io::Error::other("a connect went past the router")),
    }
}

/// The router's end of a filter.
#[derive(Debug)]
pub(crate) struct Listener {
    descriptor: OwnedFd,
    /// Whether a process exchanged a socket while it was fetched.
    is_cheated: AtomicBool,
}

/// A call that a process is waiting in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notice {
    pub(super) id: u64,
    /// The thread that made it.
    pub(super) thread: u32,
    call: i32,
    pub(super) arguments: [u64; 6],
}

/// The subject of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// A connect.
    Connect,
    /// A process that is to begin.
    Process,
    /// A change of a file's mode, owner or times.
    FileChange,
}

/// Where a connect leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Nowhere: the socket is to forget its peer.
    Nothing,
    /// To port 0: what [`probe`] asks for.
    Nowhere,
    /// To a place in the network.
    Place(SocketAddr),
    /// To something that is no place in the network.
    Foreign,
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Listener {
    /// Takes a listener, if the kernel speaks of notices as we do.
    pub(crate) fn new(listener: OwnedFd) -> io::Result<Self> {
        let mut sizes =
            libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
        #[expect(unsafe_code, reason = "no safe interface asks for the sizes")]
        // SAFETY: the kernel writes three numbers to memory that we own.
        let asked = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes)
        };
        if asked != 0 {
            return Err(io::Error::last_os_error());
        }
        let ours = (size_of::<libc::seccomp_notif>(), size_of::<libc::seccomp_notif_resp>());
        let theirs = (usize::from(sizes.seccomp_notif), usize::from(sizes.seccomp_notif_resp));
        if theirs.0 > ours.0 || theirs.1 > ours.1 {
            return Err(io::Error::other(format!(
                "the kernel's notices and answers have {theirs:?} bytes, and this program knows those of \
                 {ours:?}: it is too old for the kernel"
            )));
        }
        Ok(Self { descriptor: listener, is_cheated: AtomicBool::new(false) })
    }

    /// Receives a notice, waiting for one; none if whoever made it has gone.
    pub(crate) fn receive(&self) -> Result<Option<Notice>, Errno> {
        let mut notice = MaybeUninit::<libc::seccomp_notif>::zeroed();
        match self.ask(libc::SECCOMP_IOCTL_NOTIF_RECV, notice.as_mut_ptr()) {
            Ok(()) => {}
            Err(Errno::NOENT | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error),
        }
        #[expect(unsafe_code, reason = "the kernel fills it")]
        // SAFETY: it began as zeroes, which are a valid notice, and the kernel wrote one over them.
        let notice = unsafe { notice.assume_init() };
        let libc::seccomp_notif { id, pid: thread, data, .. } = notice;
        Ok(Some(Notice { id, thread, call: data.nr, arguments: data.args }))
    }

    /// Says whether the call is still waited in: only then is what was read of its process, by number, really
    /// of that process.
    pub(crate) fn is_waiting(&self, notice: &Notice) -> bool {
        let mut id = notice.id;
        self.ask(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id).is_ok()
    }

    /// Lets the call return. Nothing comes of it if its process has gone.
    pub(crate) fn answer(&self, notice: &Notice, result: Result<(), Errno>) {
        let error = result.map_or_else(|error| -error.raw_os_error(), |()| 0);
        let mut answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error, flags: 0 };
        let _ = self.ask(libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer);
    }

    /// Lets the call be made by the process itself. Only for calls whose arguments are nothing to judge: the process
    /// could change what is in its memory before the kernel looks at it.
    pub(crate) fn let_through(&self, notice: &Notice) {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
        let mut answer = libc::seccomp_notif_resp { id: notice.id, val: 0, error: 0, flags };
        let _ = self.ask(libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut answer);
    }

    /// Puts a descriptor of ours in place of the socket of the call. Programs that the process starts do not
    /// inherit it.
    pub(crate) fn replace(&self, notice: &Notice, ours: BorrowedFd<'_>) -> Result<(), Errno> {
        let number = |number: RawFd| u32::try_from(number).map_err(|_| Errno::BADF);
        let mut place = libc::seccomp_notif_addfd {
            id: notice.id,
            flags: u32::try_from(libc::SECCOMP_ADDFD_FLAG_SETFD).map_err(|_| Errno::INVAL)?,
            srcfd: number(ours.as_raw_fd())?,
            newfd: number(notice.socket())?,
            newfd_flags: number(libc::O_CLOEXEC)?,
        };
        self.ask(libc::SECCOMP_IOCTL_NOTIF_ADDFD, &raw mut place)
    }

    /// Reads where the connect leads.
    pub(crate) fn target(&self, notice: &Notice) -> Result<Target, Errno> {
        if i64::from(notice.call) != libc::SYS_connect {
            return Err(Errno::NOSYS);
        }
        let mut bytes = [0; size_of::<libc::sockaddr_storage>()];
        // The kernel takes the length for a number of 32 bits with a sign, whatever else is in the register.
        #[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
        let length = usize::try_from(notice.arguments[2] as i32).map_err(|_| Errno::INVAL)?;
        let bytes = bytes.get_mut(..length).ok_or(Errno::INVAL)?;
        self.read(notice, notice.arguments[1], bytes)?;
        read_target(bytes)
    }

    /// Fetches the socket of the connect: another descriptor of the same one.
    ///
    /// Only sockets are fetched. To close another descriptor of a file drops all locks that this process has on the
    /// file, those of its store included.
    pub(crate) fn socket(&self, notice: &Notice) -> Result<OwnedFd, Errno> {
        if self.is_cheated.load(Ordering::Relaxed) {
            return Err(Errno::PERM);
        }
        if !is_socket(&self.file(notice, notice.socket())?)? {
            return Err(Errno::NOTSOCK);
        }
        let fetched = self.fetch(notice, notice.socket())?;
        match is_socket(&fetched) {
            Ok(true) => Ok(fetched),
            // The process put another file in its place meanwhile, to have it closed here. It stays open, and the
            // process gets no second chance.
            _ => {
                self.is_cheated.store(true, Ordering::Relaxed);
                let _open = fetched.into_raw_fd();
                Err(Errno::NOTSOCK)
            }
        }
    }

    /// Reads memory of the process.
    pub(super) fn read(
        &self,
        notice: &Notice,
        address: u64,
        bytes: &mut [u8],
    ) -> Result<(), Errno> {
        read_memory(notice, address, bytes)?;
        self.check_waiting(notice)
    }

    /// Reads a path from the memory of the process.
    pub(super) fn read_path(&self, notice: &Notice, address: u64) -> Result<CString, Errno> {
        let mut path = Vec::new();
        let mut address = address;
        let mut page = [0; PAGE];
        while path.len() < LONGEST_PATH {
            // Up to the end of its page: the next one may not be there.
            let offset = usize::try_from(address).map_err(|_| Errno::FAULT)? % PAGE;
            let bytes = &mut page[offset..];
            read_memory(notice, address, bytes)?;
            match bytes.iter().position(|byte| *byte == 0) {
                Some(end) => {
                    path.extend_from_slice(&bytes[..end]);
                    self.check_waiting(notice)?;
                    let fits = path.len() < LONGEST_PATH;
                    return CString::new(path).ok().filter(|_| fits).ok_or(Errno::NAMETOOLONG);
                }
                None => path.extend_from_slice(bytes),
            }
            address = address.checked_add(bytes.len() as u64).ok_or(Errno::FAULT)?;
        }
        Err(Errno::NAMETOOLONG)
    }

    /// Opens the working directory of the thread.
    pub(super) fn working_directory(&self, notice: &Notice) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/{}/cwd", notice.thread);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty())?;
        self.check_waiting(notice).map(|()| opened)
    }

    fn check_waiting(&self, notice: &Notice) -> Result<(), Errno> {
        if self.is_waiting(notice) { Ok(()) } else { Err(Errno::SRCH) }
    }

    /// Opens the file of a descriptor of the process, so that it can be named and asked about, and no more. To close
    /// such a descriptor drops no locks.
    pub(super) fn file(&self, notice: &Notice, number: RawFd) -> Result<OwnedFd, Errno> {
        let path = format!("/proc/{}/fd/{number}", notice.thread);
        let opened = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        self.check_waiting(notice)?;
        opened.map_err(|error| if error == Errno::NOENT { Errno::BADF } else { error })
    }

    /// Fetches a descriptor of the process: another one of the same open file.
    fn fetch(&self, notice: &Notice, number: RawFd) -> Result<OwnedFd, Errno> {
        let thread = pid(notice.thread)?;
        // Since Linux 6.9 a thread can be meant. Before that its process is, which has the same descriptors.
        let thread_flag = PidfdFlags::from_bits_retain(libc::O_EXCL.unsigned_abs());
        let process = match rustix::process::pidfd_open(thread, thread_flag) {
            Err(Errno::INVAL) => {
                let process = process_of(notice.thread).ok_or(Errno::SRCH)?;
                rustix::process::pidfd_open(pid(process)?, PidfdFlags::empty())
            }
            opened => opened,
        }?;
        self.check_waiting(notice)?;
        rustix::process::pidfd_getfd(process, number, PidfdGetfdFlags::empty())
    }

    pub(super) fn ask<T>(&self, request: libc::Ioctl, about: *mut T) -> Result<(), Errno> {
        #[expect(unsafe_code, reason = "no safe interface knows these requests")]
        // SAFETY: each request comes with a value of its type, which the caller owns and lives until here.
        let done = unsafe { libc::ioctl(self.descriptor.as_raw_fd(), request, about) };
        if done < 0 { Err(last_error()) } else { Ok(()) }
    }
}

impl Notice {
    /// Returns the subject.
    pub(crate) fn kind(&self) -> NoticeKind {
        match self.call() {
            libc::SYS_connect => NoticeKind::Connect,
            libc::SYS_clone => NoticeKind::Process,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork | libc::SYS_vfork => NoticeKind::Process,
            _ => NoticeKind::FileChange,
        }
    }

    /// Returns the number of the call.
    pub(super) fn call(&self) -> i64 {
        self.call.into()
    }

    #[expect(clippy::cast_possible_truncation, reason = "as the kernel does")]
    const fn socket(&self) -> RawFd {
        self.arguments[0] as RawFd
    }
}

/// What [`Listener::target`] of port 0 is answered with.
pub(crate) const fn nowhere() -> Errno {
    NOWHERE
}

fn is_socket(file: &OwnedFd) -> Result<bool, Errno> {
    let mode = rustix::fs::fstat(file)?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::Socket)
}

fn pid(number: u32) -> Result<Pid, Errno> {
    i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// Returns the process of a thread.
fn process_of(thread: u32) -> Option<u32> {
    let status = read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Reads memory of the process that a notice comes from.
fn read_memory(notice: &Notice, address: u64, bytes: &mut [u8]) -> Result<(), Errno> {
    let address = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    let theirs =
        libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: bytes.len() };
    let ours = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let thread = i32::try_from(notice.thread).map_err(|_| Errno::SRCH)?;
    #[expect(unsafe_code, reason = "no safe interface reads the memory of another process")]
    // SAFETY: the kernel writes at most as many bytes as are ours; the address of the other side is only a
    // number here.
    let read =
        unsafe { libc::process_vm_readv(thread, &raw const ours, 1, &raw const theirs, 1, 0) };
    match usize::try_from(read) {
        Err(_) => Err(last_error()),
        Ok(read) if read < bytes.len() => Err(Errno::FAULT),
        Ok(_) => Ok(()),
    }
}

/// Reads an address as the kernel does, with its errors.
pub(super) fn read_target(bytes: &[u8]) -> Result<Target, Errno> {
    let part = |from: usize, to: usize| bytes.get(from..to).ok_or(Errno::INVAL);
    fn array<const N: usize>(part: &[u8]) -> Result<[u8; N], Errno> {
        part.try_into().map_err(|_| Errno::INVAL)
    }
    let family = i32::from(u16::from_ne_bytes(array(part(0, 2)?)?));
    let target = match family {
        libc::AF_UNSPEC => return Ok(Target::Nothing),
        libc::AF_INET => {
            part(0, size_of::<libc::sockaddr_in>())?;
            let port = u16::from_be_bytes(array(part(2, 4)?)?);
            SocketAddr::from((array::<4>(part(4, 8)?)?, port))
        }
        libc::AF_INET6 => {
            // The oldest form has no scope, and the kernel still takes it.
            part(0, 24)?;
            let port = u16::from_be_bytes(array(part(2, 4)?)?);
            let flow = u32::from_ne_bytes(array(part(4, 8)?)?);
            let scope = part(24, 28).and_then(array).map_or(0, u32::from_ne_bytes);
            SocketAddrV6::new(array::<16>(part(8, 24)?)?.into(), port, flow, scope).into()
        }
        _ => return Ok(Target::Foreign),
    };
    Ok(if target.port() == 0 { Target::Nowhere } else { Target::Place(target) })
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// What tests need to be hostile.
#[cfg(test)]
pub(crate) mod hostile {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Connects to an IPv4 address in memory that other threads may be writing to.
    pub(crate) fn connect(socket: BorrowedFd<'_>, address: &[AtomicU32; 4]) -> Result<(), Errno> {
        let socket = socket.as_raw_fd();
        #[expect(unsafe_code, reason = "no safe interface connects to what changes meanwhile")]
        // SAFETY: the kernel, or the router, reads 16 bytes that live until the call returns.
        let done = unsafe { libc::connect(socket, address.as_ptr().cast(), 16) };
        if done < 0 { Err(last_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(family: i32, port: u16, rest: &[u8]) -> Vec<u8> {
        let family = u16::try_from(family).unwrap().to_ne_bytes();
        [&family[..], &port.to_be_bytes(), rest].concat()
    }

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let four = bytes(libc::AF_INET, 80, &[127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(read_target(&four), Ok(Target::Place("127.0.0.1:80".parse().unwrap())));
        let mut six = vec![0; 24];
        six[19] = 1;
        six[20..24].copy_from_slice(&7_u32.to_ne_bytes());
        let six = bytes(libc::AF_INET6, 80, &six);
        let expected = SocketAddrV6::new(1.into(), 80, 0, 7);
        assert_eq!(read_target(&six), Ok(Target::Place(expected.into())));
        let scopeless = SocketAddrV6::new(1.into(), 80, 0, 0);
        assert_eq!(read_target(&six[..24]), Ok(Target::Place(scopeless.into())));
        assert_eq!(read_target(&six[..23]), Err(Errno::INVAL));
        assert_eq!(read_target(&four[..15]), Err(Errno::INVAL));
        assert_eq!(read_target(&four[..1]), Err(Errno::INVAL));
        assert_eq!(read_target(&[]), Err(Errno::INVAL));
        assert_eq!(read_target(&bytes(libc::AF_UNSPEC, 0, &[])), Ok(Target::Nothing));
        assert_eq!(read_target(&bytes(libc::AF_UNIX, 0, b"socket")), Ok(Target::Foreign));
        assert_eq!(read_target(&bytes(libc::AF_INET, 0, &[0; 12])), Ok(Target::Nowhere));
    }

    #[test]
    fn a_thread_belongs_to_its_process() {
        let ids = std::thread::spawn(|| {
            let own = rustix::thread::gettid().as_raw_pid().unsigned_abs();
            (own, process_of(own))
        });
        let (thread, process) = ids.join().unwrap();
        assert_ne!(thread, std::process::id());
        assert_eq!(process, Some(std::process::id()));
    }
}
