//! Real processes that are stopped at their connects, honest and hostile ones.

mod locks;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use simple_dns::{CLASS, Name, Packet, Question, RCODE, TYPE};

use super::*;
use crate::sandbox::{MARK, hostile, listen, probe};

/// Long enough for whatever ends at all, and shorter than the kernel tries to connect.
const DEADLINE: Duration = Duration::from_secs(30);
const THIS: &str = "worker::broker::tests";
/// What a worker of these tests is to do, and the ports that it is to use.
const ACT: &str = "NEXUS_TEST_ACT";
const GRANTED: &str = "NEXUS_TEST_GRANTED";
const OTHER: &str = "NEXUS_TEST_OTHER";

// The router's side.

struct Worker {
    child: Child,
    link: UnixStream,
    broker: Option<Broker>,
    desk: Weak<Desk>,
}

/// Starts a worker, and attends to it.
fn start(act: &str, granted: &[String], ports: (u16, u16), resolve: Resolve) -> Worker {
    let (child, link, listener) = spawn(act, ports);
    let granted = granted.iter().map(|text| text.parse().unwrap()).collect();
    let desk = Arc::new(Desk::new(listener, granted, "test", resolve).unwrap());
    let broker = begin(&desk).unwrap();
    (&link).write_all(b"g").unwrap();
    Worker { child, link, broker: Some(broker), desk: Arc::downgrade(&desk) }
}

/// Starts a worker that waits for a byte once it has sent its listener.
fn spawn(act: &str, ports: (u16, u16)) -> (Child, UnixStream, OwnedFd) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", &format!("{THIS}::the_worker")])
        .envs([(ACT, act), ("RES_OPTIONS", "use-vc ndots:0")])
        .envs([(GRANTED, ports.0.to_string()), (OTHER, ports.1.to_string())])
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let listener = receive_descriptor(&ours);
    (child, ours, listener)
}

impl Worker {
    /// Waits until the worker has done all that it should, and nothing is left of its broker.
    fn succeeds(self) {
        let output = self.child.wait_with_output().unwrap();
        assert_success(&output);
        until("the broker ends with its worker", || self.desk.upgrade().is_none());
        drop(self.broker);
    }

    fn until_errands(&self, count: usize) {
        until("an errand is under way", || {
            self.desk.upgrade().is_some_and(|desk| desk.errands.count() == count)
        });
    }
}

fn assert_success(output: &Output) {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert!(!out.contains(" 0 passed"), "nothing ran: {out}");
}

fn until(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn receive_descriptor(from: &UnixStream) -> OwnedFd {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut extra = RecvAncillaryBuffer::new(&mut room);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC;
    rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut extra, flags).unwrap();
    let received = extra.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    received.expect("the worker sends its listener")
}

/// A server that gives back what it gets, and counts who came.
struct Echo {
    port: u16,
    came: Arc<AtomicU32>,
}

fn echo() -> Echo {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let came = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&came);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            std::thread::spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    Echo { port, came }
}

/// Returns a server that never takes anybody, and whoever keeps it from doing so.
fn deaf() -> (OwnedFd, u16, Vec<OwnedFd>) {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = socket(SocketType::STREAM, SocketFlags::CLOEXEC);
    rustix::net::bind(&server, &any).unwrap();
    rustix::net::listen(&server, 0).unwrap();
    let place = SocketAddr::try_from(rustix::net::getsockname(&server).unwrap()).unwrap();
    let fill = |_| {
        let client = socket(SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let _ = rustix::net::connect(&client, &place);
        client
    };
    (server, place.port(), (0..4).map(fill).collect())
}

fn socket(kind: SocketType, flags: SocketFlags) -> OwnedFd {
    rustix::net::socket_with(AddressFamily::INET, kind, flags, None).unwrap()
}

fn fixed_names(name: &str) -> io::Result<Vec<IpAddr>> {
    match name {
        "granted.test" => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
        "app.localhost" => Ok(vec![Ipv4Addr::LOCALHOST.into()]),
        _ => Err(io::Error::other("unknown")),
    }
}

#[test]
fn a_worker_connects_to_what_is_granted_and_to_nothing_else() {
    let (granted, other) = (echo(), echo());
    let endpoints = [format!("127.0.0.1:{}", granted.port), "127.0.0.1:1".to_owned()];
    start("places", &endpoints, (granted.port, other.port), ask_system).succeeds();
    assert_eq!(other.came.load(Ordering::SeqCst), 0);
}

#[test]
fn a_worker_learns_the_addresses_of_granted_names_alone() {
    let (granted, other) = (echo(), echo());
    let endpoints =
        [format!("granted.test:{}", granted.port), format!("127.0.0.1:{}", granted.port)];
    start("names", &endpoints, (granted.port, other.port), fixed_names).succeeds();
    assert_eq!(other.came.load(Ordering::SeqCst), 0);
}

#[test]
fn names_that_resolve_to_internal_addresses_are_not_connected() {
    for grant in ["granted.test", "*", "10.0.0.0/8", "127.0.0.2"] {
        let granted = echo();
        let endpoints =
            [format!("{grant}:{}", granted.port), format!("granted.test:{}", granted.port)];
        start("internal", &endpoints, (granted.port, 0), fixed_names).succeeds();
        assert_eq!(granted.came.load(Ordering::SeqCst), 0, "{grant}");
    }
}

#[test]
fn ranges_and_localhost_include_loopback() {
    for grant in ["127.0.0.0/8", "app.localhost", "0.0.0.0/0"] {
        let granted = echo();
        let endpoints = [format!("{grant}:{}", granted.port)];
        start("loopback", &endpoints, (granted.port, 0), fixed_names).succeeds();
        assert_eq!(granted.came.load(Ordering::SeqCst), 1, "{grant}");
    }
}

#[test]
fn a_name_from_the_file_of_hosts_leads_where_the_router_finds_it_too() {
    let (granted, other) = (echo(), echo());
    let endpoints = vec![format!("localhost:{}", granted.port).parse().unwrap()];
    let (child, mut link, listener) = spawn("hosts", (granted.port, other.port));
    let broker = attend(listener, endpoints, "test").unwrap();
    link.write_all(b"g").unwrap();
    assert_success(&child.wait_with_output().unwrap());
    drop(broker);
    assert_eq!(other.came.load(Ordering::SeqCst), 0);
}

#[test]
fn an_address_that_changes_while_it_is_judged_leads_nowhere_else() {
    let (granted, other) = (echo(), echo());
    let endpoints = [format!("127.0.0.1:{}", granted.port)];
    start("race", &endpoints, (granted.port, other.port), ask_system).succeeds();
    assert_eq!(other.came.load(Ordering::SeqCst), 0);
}

#[test]
fn a_worker_killed_in_a_connect_leaves_nothing_behind() {
    let (_server, port, _clients) = deaf();
    let endpoints = [format!("127.0.0.1:{port}")];
    let mut worker = start("hang", &endpoints, (port, 0), ask_system);
    worker.until_errands(1);
    worker.child.kill().unwrap();
    worker.child.wait().unwrap();
    until("the broker ends with its worker", || worker.desk.upgrade().is_none());
}

#[test]
fn a_broker_that_is_dropped_fails_what_is_under_way() {
    let (_server, port, _clients) = deaf();
    let endpoints = [format!("127.0.0.1:{port}")];
    let mut worker = start("hang", &endpoints, (port, 0), ask_system);
    worker.until_errands(1);
    drop(worker.broker.take());
    until("the broker ends", || worker.desk.upgrade().is_none());
    worker.succeeds();
}

#[test]
fn more_connects_than_a_broker_makes_at_once_fail_at_once() {
    let (_server, port, _clients) = deaf();
    let endpoints = [format!("127.0.0.1:{port}")];
    let mut worker = start("crowd", &endpoints, (port, 0), ask_system);
    worker.until_errands(errands::MOST);
    worker.link.write_all(b"g").unwrap();
    worker.succeeds();
}

#[test]
fn a_router_that_may_not_look_into_its_workers_is_found_out() {
    for call in [libc::SYS_pidfd_getfd, libc::SYS_process_vm_readv] {
        let granted = echo();
        let port = granted.port;
        // The threads of the broker are bound by what binds the one that began them.
        let router = std::thread::spawn(move || {
            rustix::thread::set_no_new_privs(true).unwrap();
            let denied = SeccompAction::Errno(libc::EPERM.unsigned_abs());
            seccompiler::apply_filter(&filter(call, denied)).unwrap();
            start("blind", &[format!("127.0.0.1:{port}")], (port, 0), ask_system).succeeds();
        });
        router.join().unwrap();
        assert_eq!(granted.came.load(Ordering::SeqCst), 0);
    }
}

#[test]
fn all_of_it_works_without_privileges() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // Where the program was built may be out of reach of others.
    let directory = tempfile::tempdir().unwrap();
    let readable = |path: &std::path::Path| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    readable(directory.path());
    let program = directory.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    readable(&program);
    let output = Command::new(program)
        .args([THIS, "--skip", "all_of_it"])
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert_success(&output);
}

// The worker's side.

#[test]
#[ignore = "it is the worker of the other tests"]
fn the_worker() {
    let Ok(act) = std::env::var(ACT) else { return };
    rustix::thread::set_no_new_privs(true).unwrap();
    let listener = listen(&filter(libc::SYS_connect, SeccompAction::Trace(MARK))).unwrap();
    send_descriptor(&std::io::stdin(), &listener);
    drop(listener);
    wait_for_router();
    let probed = probe();
    assert_eq!(probed.is_ok(), act != "blind", "{probed:?}");
    let port = |name| std::env::var(name).unwrap().parse().unwrap();
    let (granted, other) = (port(GRANTED), port(OTHER));
    match act.as_str() {
        "places" => try_places(granted, other),
        "names" => try_names(granted, other),
        "hosts" => try_hosts(granted, other),
        "internal" => try_internal(granted),
        "loopback" => talk(TcpStream::connect((Ipv4Addr::LOCALHOST, granted)).unwrap()),
        "race" => race(granted, other),
        "hang" => hang(granted),
        "crowd" => crowd(granted),
        "blind" => {
            let refused = TcpStream::connect((Ipv4Addr::LOCALHOST, granted));
            assert_eq!(kind(refused), ErrorKind::PermissionDenied);
        }
        _ => locks::connect_on(act.strip_prefix(locks::ACT_ON_FILE).unwrap()),
    }
}

fn wait_for_router() {
    let mut byte = [0];
    assert_eq!(rustix::io::read(std::io::stdin(), &mut byte).unwrap(), 1);
}

/// Makes a filter of one call.
fn filter(call: i64, action: SeccompAction) -> BpfProgram {
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let rules = BTreeMap::from([(call, Vec::new())]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch);
    filter.unwrap().try_into().unwrap()
}

fn send_descriptor(to: &impl AsFd, descriptor: &OwnedFd) {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut extra = SendAncillaryBuffer::new(&mut room);
    let descriptors = [descriptor.as_fd()];
    assert!(extra.push(SendAncillaryMessage::ScmRights(&descriptors)));
    rustix::net::sendmsg(to, &[IoSlice::new(b"l")], &mut extra, SendFlags::empty()).unwrap();
}

fn kind(result: io::Result<TcpStream>) -> ErrorKind {
    result.expect_err("it must not connect").kind()
}

fn talk(mut stream: TcpStream) {
    stream.write_all(b"ping").unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

fn try_places(granted: u16, other: u16) {
    let here = Ipv4Addr::LOCALHOST;
    talk(TcpStream::connect((here, granted)).unwrap());
    assert_eq!(kind(TcpStream::connect((here, other))), ErrorKind::PermissionDenied);
    assert_eq!(kind(TcpStream::connect((here, 1))), ErrorKind::ConnectionRefused);
    assert_eq!(kind(TcpStream::connect("0.0.0.0:1")), ErrorKind::PermissionDenied);
    std::thread::spawn(move || {
        talk(TcpStream::connect((here, granted)).unwrap());
        assert_eq!(kind(TcpStream::connect((here, other))), ErrorKind::PermissionDenied);
    })
    .join()
    .unwrap();
    // Connecting in a given time is done without blocking.
    talk(TcpStream::connect_timeout(&(here, granted).into(), DEADLINE).unwrap());
    let refused = TcpStream::connect_timeout(&(here, other).into(), DEADLINE);
    assert_eq!(kind(refused), ErrorKind::PermissionDenied);
    // Not every machine has IPv6.
    let mapped = here.to_ipv6_mapped();
    if TcpListener::bind("[::1]:0").is_ok() {
        talk(TcpStream::connect((mapped, granted)).unwrap());
        assert_eq!(kind(TcpStream::connect((mapped, other))), ErrorKind::PermissionDenied);
    }
    let udp = UdpSocket::bind((here, 0)).unwrap();
    let refused = udp.connect((here, granted)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    let refused = UnixStream::connect("/nowhere").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    // What was connected and forgets its peer ends the connection.
    let stream = TcpStream::connect((here, granted)).unwrap();
    rustix::net::connect_unspec(&stream).unwrap();
    assert_eq!(stream.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
    let file = std::fs::File::open("/dev/null").unwrap();
    let place = SocketAddr::from((here, granted));
    assert_eq!(rustix::net::connect(&file, &place), Err(Errno::NOTSOCK));
}

/// Asks for a name over TCP, and returns what came of it.
fn ask(name: &str) -> (RCODE, usize) {
    let mut server = TcpStream::connect("192.0.2.53:53").unwrap();
    let mut query = Packet::new_query(9);
    let (name, a) = (Name::new(name).unwrap(), TYPE::A.into());
    query.questions.push(Question::new(name, a, CLASS::IN.into(), false));
    let query = query.build_bytes_vec().unwrap();
    let length = u16::try_from(query.len()).unwrap().to_be_bytes();
    server.write_all(&[&length[..], &query].concat()).unwrap();
    let mut length = [0; 2];
    server.read_exact(&mut length).unwrap();
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    server.read_exact(&mut answer).unwrap();
    let answer = Packet::parse(&answer).unwrap();
    (answer.rcode(), answer.answers.len())
}

fn try_names(granted: u16, other: u16) {
    assert_eq!(ask("granted.test"), (RCODE::NoError, 1));
    assert_eq!(ask("leak.granted.test"), (RCODE::NameError, 0));
    assert_eq!(ask("other.test"), (RCODE::NameError, 0));
    // As most programs ask.
    let found: Vec<SocketAddr> = ("granted.test", granted).to_socket_addrs().unwrap().collect();
    assert_eq!(found, [(Ipv4Addr::LOCALHOST, granted).into()]);
    assert!(("other.test", granted).to_socket_addrs().is_err());
    talk(TcpStream::connect(("granted.test", granted)).unwrap());
    let refused = TcpStream::connect(("granted.test", other));
    assert_eq!(kind(refused), ErrorKind::PermissionDenied);
    let refused = TcpStream::connect(("127.0.0.2", granted));
    assert_eq!(kind(refused), ErrorKind::PermissionDenied);
}

fn try_hosts(granted: u16, other: u16) {
    talk(TcpStream::connect(("localhost", granted)).unwrap());
    assert_eq!(kind(TcpStream::connect(("localhost", other))), ErrorKind::PermissionDenied);
}

fn try_internal(port: u16) {
    let refused = TcpStream::connect(("granted.test", port));
    assert_eq!(kind(refused), ErrorKind::PermissionDenied);
    for address in ["127.0.0.1", "0.0.0.0", "169.254.169.254", "192.168.0.1"] {
        let refused = TcpStream::connect((address, port));
        assert_eq!(kind(refused), ErrorKind::PermissionDenied, "{address}");
    }
    if TcpListener::bind("[::1]:0").is_ok() {
        for address in ["::1", "::ffff:127.0.0.1", "::"] {
            let refused = TcpStream::connect((address, port));
            assert_eq!(kind(refused), ErrorKind::PermissionDenied, "{address}");
        }
    }
}

/// Connects while another thread changes the address back and forth.
fn race(granted: u16, other: u16) {
    let first = |port: u16| {
        let family = u16::try_from(libc::AF_INET).unwrap().to_ne_bytes();
        let port = port.to_be_bytes();
        u32::from_ne_bytes([family[0], family[1], port[0], port[1]])
    };
    let host = u32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets());
    let address = [first(granted), host, 0, 0].map(AtomicU32::new);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                address[0].store(first(other), Ordering::Relaxed);
                std::hint::spin_loop();
                address[0].store(first(granted), Ordering::Relaxed);
            }
        });
        let mut connects = (0..2000).map(|_| {
            let socket = socket(SocketType::STREAM, SocketFlags::CLOEXEC);
            let result = hostile::connect(socket.as_fd(), &address);
            (result, TcpStream::from(socket).peer_addr().ok())
        });
        let right = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, granted)));
        let wrong = connects.find(|connect| match connect {
            (Ok(()), peer) => *peer != right,
            (Err(error), peer) => *error != Errno::ACCESS || peer.is_some(),
        });
        // The other thread ends also if something is wrong.
        over.store(true, Ordering::Relaxed);
        assert_eq!(wrong, None);
    });
}

/// Waits in a connect that only the end of the broker ends.
fn hang(port: u16) {
    kind(TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
    // Nobody answers any more: no connect gets past that.
    let error = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
}

fn crowd(port: u16) {
    let (tell, told) = std::sync::mpsc::channel();
    for _ in 0..=errands::MOST {
        let tell = tell.clone();
        std::thread::spawn(move || {
            tell.send(kind(TcpStream::connect((Ipv4Addr::LOCALHOST, port)))).unwrap();
        });
    }
    assert_eq!(told.recv_timeout(DEADLINE), Ok(ErrorKind::WouldBlock));
    wait_for_router();
}
