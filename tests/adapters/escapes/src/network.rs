//! Attempts on the network: connections, datagrams, and sockets of other kinds.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};

use serde_json::Value;

use crate::{Attempt, checked, number, text};

const IPPROTO_MPTCP: i32 = 262;

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("tcp_connect", |args| {
        let port = number(args, "port")?.cast_unsigned().try_into().unwrap_or_default();
        TcpStream::connect(("127.0.0.1", port)).map(|_| Value::Null)
    }),
    ("tcp_socket", |_| made(libc::AF_INET, libc::SOCK_STREAM, 0)),
    ("tcp_socket_v6", |_| made(libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_TCP)),
    ("tcp_listen", |_| {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        attempt!(libc::listen(socket.as_raw_fd(), 1))
    }),
    ("tcp_bind", |_| {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        let address = address(0);
        attempt!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length()))
    }),
    ("fast_open", |args| {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        send_to(&socket, number(args, "port")?, libc::MSG_FASTOPEN)
    }),
    ("fast_open_message", |args| {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        send_message(&socket, number(args, "port")?, libc::MSG_FASTOPEN)
    }),
    ("send_to_unconnected", |args| {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        send_to(&socket, number(args, "port")?, libc::MSG_NOSIGNAL)
    }),
    ("send_message_unconnected", |args| {
        let socket = socket(libc::AF_INET, libc::SOCK_STREAM, 0)?;
        send_message(&socket, number(args, "port")?, libc::MSG_NOSIGNAL)
    }),
    ("mptcp", |_| made(libc::AF_INET, libc::SOCK_STREAM, IPPROTO_MPTCP)),
    ("udp", |_| made(libc::AF_INET, libc::SOCK_DGRAM, 0)),
    ("udp_v6", |_| made(libc::AF_INET6, libc::SOCK_DGRAM, 0)),
    ("raw", |_| made(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)),
    ("netlink", |_| made(libc::AF_NETLINK, libc::SOCK_RAW, 0)),
    // Only made: whoever is at the other end is none of a test's business.
    ("vsock", |_| made(libc::AF_VSOCK, libc::SOCK_STREAM, 0)),
    ("packet", |_| made(libc::AF_PACKET, libc::SOCK_DGRAM, 0)),
    ("unix_path", |args| UnixStream::connect(text(args, "path")?).map(|_| Value::Null)),
    ("unix_abstract", |args| {
        let address = SocketAddr::from_abstract_name(text(args, "name")?)?;
        UnixStream::connect_addr(&address).map(|_| Value::Null)
    }),
    ("unix_listen", |args| UnixListener::bind(text(args, "path")?).map(|_| Value::Null)),
    ("unix_datagram", |_| UnixDatagram::unbound().map(|_| Value::Null)),
    ("datagram_of_pair", |args| {
        let (ours, _theirs) = UnixDatagram::pair()?;
        Ok(ours.send_to(b"x", text(args, "path")?)?.into())
    }),
    ("message_of_pair", |args| message_of_pair(text(args, "path")?)),
    ("socket_pair", |_| UnixStream::pair().map(|_| Value::Null)),
];

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers.
    let descriptor = unsafe { libc::socket(family, kind | libc::SOCK_CLOEXEC, protocol) };
    drop(checked(descriptor.into())?);
    // SAFETY: the socket was made above, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

fn made(family: i32, kind: i32, protocol: i32) -> io::Result<Value> {
    socket(family, kind, protocol).map(|_| Value::Null)
}

/// Returns an address of this machine.
fn address(port: i32) -> libc::sockaddr_in {
    let port: u16 = port.try_into().unwrap_or_default();
    libc::sockaddr_in {
        sin_family: libc::AF_INET.try_into().unwrap_or_default(),
        sin_port: port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_be_bytes([127, 0, 0, 1]).to_be() },
        sin_zero: [0; 8],
    }
}

fn length() -> libc::socklen_t {
    size_of::<libc::sockaddr_in>().try_into().unwrap_or_default()
}

fn send_to(socket: &OwnedFd, port: i32, flags: i32) -> io::Result<Value> {
    let address = address(port);
    attempt!(
        i32::try_from(libc::sendto(
            socket.as_raw_fd(),
            c"hello".as_ptr().cast(),
            5,
            flags,
            (&raw const address).cast(),
            length(),
        ))
        .unwrap_or(-1)
    )
}

fn send_message(socket: &OwnedFd, port: i32, flags: i32) -> io::Result<Value> {
    let mut address = address(port);
    send_message_to(socket, (&raw mut address).cast(), length(), flags)
}

/// Sends a datagram with half a pair to the socket at a path.
fn message_of_pair(path: &str) -> io::Result<Value> {
    let (ours, _theirs) = UnixDatagram::pair()?;
    // SAFETY: an address of zeroes is a valid one: it has no name.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX.try_into().unwrap_or_default();
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let length = size_of::<libc::sockaddr_un>().try_into().unwrap_or_default();
    send_message_to(&ours.into(), (&raw mut address).cast(), length, 0)
}

fn send_message_to(
    socket: &OwnedFd,
    address: *mut libc::c_void,
    length: libc::socklen_t,
    flags: i32,
) -> io::Result<Value> {
    let mut hello = *b"hello";
    let mut part = libc::iovec { iov_base: hello.as_mut_ptr().cast(), iov_len: hello.len() };
    // SAFETY: a message of zeroes is a valid one: it has no parts.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_name = address;
    message.msg_namelen = length;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    attempt!(
        i32::try_from(libc::sendmsg(socket.as_raw_fd(), &raw const message, flags)).unwrap_or(-1)
    )
}
