//! The network: without a grant there is none, and with one there is TCP alone.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};

use nexus_router::grant::Grants;
use serde_json::{Value, json};

use super::{EACCES, EPERM, Stage, nothing, path, unconfined};

fn connecting() -> Stage {
    Stage::new(|_| Grants { connect: vec!["127.0.0.1:9".parse().unwrap()], ..Grants::default() })
}

/// Sockets that nobody gets, whatever is granted.
const NEVER: &[&str] = &[
    "mptcp",
    "udp",
    "udp_v6",
    "raw",
    "netlink",
    "vsock",
    "packet",
    "unix_datagram",
    "tcp_listen",
    "tcp_bind",
];

/// Somebody to connect to, in every way.
struct Peer {
    tcp: TcpListener,
    unix: UnixListener,
    _abstract: UnixListener,
    name: String,
    datagrams: UnixDatagram,
}

impl Peer {
    fn new(stage: &Stage) -> Self {
        let name = format!("nexus-router-{}", stage.world.directory.path().display());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            unix: UnixListener::bind(stage.granted("socket")).unwrap(),
            _abstract: UnixListener::bind_addr(&address).unwrap(),
            name,
            datagrams: UnixDatagram::bind(stage.granted("datagrams")).unwrap(),
        }
    }

    fn port(&self) -> Value {
        json!({ "port": self.tcp.local_addr().unwrap().port() })
    }

    fn path(&self) -> Value {
        path(self.unix.local_addr().unwrap().as_pathname().unwrap())
    }

    fn datagrams(&self) -> Value {
        path(self.datagrams.local_addr().unwrap().as_pathname().unwrap())
    }

    fn name(&self) -> Value {
        json!({ "name": self.name })
    }

    /// Asserts that nobody came.
    fn assert_alone(&self) {
        self.tcp.set_nonblocking(true).unwrap();
        self.unix.set_nonblocking(true).unwrap();
        self.datagrams.set_nonblocking(true).unwrap();
        assert!(self.datagrams.recv(&mut [0]).is_err());
        assert!(self.tcp.accept().is_err() && self.unix.accept().is_err());
    }
}

#[test]
fn there_is_no_network_without_a_grant() {
    for stage in [Stage::new(nothing), Stage::anything_readable()] {
        let peer = Peer::new(&stage);
        for method in ["tcp_connect", "fast_open", "fast_open_message"] {
            stage.assert_denied(method, &peer.port(), &[EPERM]);
        }
        stage.assert_denied("unix_path", &peer.path(), &[EPERM]);
        stage.assert_denied("unix_abstract", &peer.name(), &[EPERM]);
        stage.assert_denied("datagram_of_pair", &peer.datagrams(), &[EPERM]);
        stage.assert_denied("message_of_pair", &peer.datagrams(), &[EPERM]);
        stage.assert_denied("unix_listen", &path(stage.granted("other")), &[EPERM]);
        for method in NEVER.iter().chain(&["tcp_socket", "tcp_socket_v6"]) {
            stage.assert_denied(method, &json!({}), &[EPERM]);
        }
        stage.assert_works("socket_pair", &json!({}));
        peer.assert_alone();
    }
}

#[test]
fn a_grant_to_connect_gives_plain_tcp_and_no_other_way() {
    let stage = connecting();
    let peer = Peer::new(&stage);
    stage.assert_works("tcp_socket", &json!({}));
    stage.assert_works("tcp_socket_v6", &json!({}));
    for method in NEVER {
        stage.assert_denied(method, &json!({}), &[EPERM]);
    }
    for method in ["fast_open", "fast_open_message", "send_to_unconnected"] {
        stage.assert_denied(method, &peer.port(), &[EPERM]);
    }
    // A socket without a connection has nobody to send to, whatever address is named.
    stage.assert_denied("send_message_unconnected", &peer.port(), &[32, 107]);
    stage.assert_denied("unix_path", &peer.path(), &[EPERM]);
    stage.assert_denied("unix_abstract", &peer.name(), &[EPERM]);
    stage.assert_denied("datagram_of_pair", &peer.datagrams(), &[EPERM]);
    stage.assert_denied("message_of_pair", &peer.datagrams(), &[EPERM]);
    stage.assert_works("socket_pair", &json!({}));
    // The port is not granted: the kernel says so itself, or nobody answers the notice.
    stage.assert_denied("tcp_connect", &peer.port(), &[EACCES]);
    peer.assert_alone();
}

#[test]
fn what_is_denied_works_for_whoever_is_not_confined() {
    let stage = Stage::anything_readable();
    let peer = Peer::new(&stage);
    for method in ["tcp_socket", "udp", "netlink", "unix_datagram", "tcp_listen", "tcp_bind"] {
        assert_eq!(unconfined(method, &json!({})), 0, "{method}");
    }
    for method in ["tcp_connect", "fast_open", "fast_open_message"] {
        assert_eq!(unconfined(method, &peer.port()), 0, "{method}");
    }
    assert_eq!(unconfined("unix_path", &peer.path()), 0);
    assert_eq!(unconfined("datagram_of_pair", &peer.datagrams()), 0);
    assert_eq!(unconfined("message_of_pair", &peer.datagrams()), 0);
    assert_eq!(unconfined("unix_abstract", &peer.name()), 0);
}
