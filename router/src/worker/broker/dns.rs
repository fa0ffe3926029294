//! Answers those who ask for names over TCP: the addresses of granted names, and nothing else.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use simple_dns::rdata::RData;
use simple_dns::{CLASS, OPCODE, Packet, PacketFlag, QCLASS, QTYPE, RCODE, ResourceRecord, TYPE};

use crate::grant::{Endpoint, Host};

/// How long a question may be. The longest honest one is a tenth of it.
const LONGEST: usize = 4096;
/// How many questions a connection may bring.
const MOST_QUESTIONS: usize = 100;
/// How many addresses an answer brings.
const MOST_ADDRESSES: usize = 64;
/// How long a question, or the reading of its answer, may take.
const IDLE: Duration = Duration::from_secs(10);
/// How many seconds an answer may be kept.
const KEEP: u32 = 30;

/// What is known of a name.
#[derive(Debug)]
pub(super) enum Found {
    /// Its addresses.
    Addresses(Vec<IpAddr>),
    /// It is not granted.
    Unknown,
    /// The router could not find out.
    Failed,
}

/// Answers questions until nobody asks any more.
pub(super) fn serve(mut asker: UnixStream, find: impl Fn(&str) -> Found) {
    for _ in 0..MOST_QUESTIONS {
        let Ok(question) = read(&mut asker) else { return };
        let Some(answer) = answer(&question, &find) else { return };
        let Ok(length) = u16::try_from(answer.len()) else { return };
        let answer = [&length.to_be_bytes()[..], &answer].concat();
        if asker.set_write_timeout(Some(IDLE)).and_then(|()| asker.write_all(&answer)).is_err() {
            return;
        }
    }
}

fn read(asker: &mut UnixStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + IDLE;
    let mut length = [0; 2];
    fill(asker, &mut length, deadline)?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut question = vec![0; length];
    fill(asker, &mut question, deadline)?;
    Ok(question)
}

/// Reads as much as there is room for. One byte now and then does not prolong it.
fn fill(asker: &mut UnixStream, mut room: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !room.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        asker.set_read_timeout(Some(left))?;
        match asker.read(room) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => room = &mut room[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Answers one question; none if it is not even one.
fn answer(question: &[u8], find: impl Fn(&str) -> Found) -> Option<Vec<u8>> {
    let asked = Packet::parse(question).ok()?;
    if asked.has_flags(PacketFlag::RESPONSE) {
        return None;
    }
    let mut answer = Packet::new_reply(asked.id());
    *answer.opcode_mut() = asked.opcode();
    answer.set_flags(PacketFlag::RECURSION_AVAILABLE);
    if asked.has_flags(PacketFlag::RECURSION_DESIRED) {
        answer.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    *answer.rcode_mut() = match asked.questions.as_slice() {
        _ if asked.opcode() != OPCODE::StandardQuery => RCODE::NotImplemented,
        [question] => {
            answer.questions.push(question.clone());
            match question.qclass {
                QCLASS::CLASS(CLASS::IN) => answer_question(question, &mut answer.answers, find),
                _ => RCODE::Refused,
            }
        }
        _ => RCODE::FormatError,
    };
    answer.build_bytes_vec_compressed().ok()
}

fn answer_question<'a>(
    question: &simple_dns::Question<'a>,
    answers: &mut Vec<ResourceRecord<'a>>,
    find: impl Fn(&str) -> Found,
) -> RCODE {
    // Who is told that a name does not exist gives up at once; who is refused asks others, and asks again.
    let Some(name) = name_of(question) else { return RCODE::NameError };
    let addresses = match find(&name) {
        Found::Addresses(addresses) => addresses,
        Found::Unknown => return RCODE::NameError,
        Found::Failed => return RCODE::ServerFailure,
    };
    let datum = |address: IpAddr| match (address.to_canonical(), question.qtype) {
        (IpAddr::V4(address), QTYPE::TYPE(TYPE::A)) => Some(RData::A(address.into())),
        (IpAddr::V6(address), QTYPE::TYPE(TYPE::AAAA)) => Some(RData::AAAA(address.into())),
        // A name has nothing but addresses here.
        _ => None,
    };
    let record = |datum| ResourceRecord::new(question.qname.clone(), CLASS::IN, KEEP, datum);
    answers.extend(addresses.into_iter().filter_map(datum).take(MOST_ADDRESSES).map(record));
    RCODE::NoError
}

/// Returns the name that is asked for, if it is one that could be granted.
fn name_of(question: &simple_dns::Question<'_>) -> Option<String> {
    let labels: Vec<&str> =
        question.qname.as_bytes().map(std::str::from_utf8).collect::<Result<_, _>>().ok()?;
    // A point within a label is no border between labels.
    if labels.iter().any(|label| label.contains(['.', ':'])) {
        return None;
    }
    match format!("{}:*", labels.join(".")).parse() {
        Ok(Endpoint { host: Host::Name(name), .. }) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::{Name, Question};

    fn find(name: &str) -> Found {
        match name {
            "api.example" => Found::Addresses(vec![
                [192, 0, 2, 1].into(),
                "2001:db8::1".parse().unwrap(),
                [192, 0, 2, 2].into(),
            ]),
            "broken.example" => Found::Failed,
            _ => Found::Unknown,
        }
    }

    fn query(name: &str, qtype: TYPE) -> Packet<'_> {
        let mut packet = Packet::new_query(7);
        let name = Name::new(name).unwrap();
        packet.questions.push(Question::new(name, qtype.into(), CLASS::IN.into(), false));
        packet
    }

    /// Returns the code and the data of the answer.
    fn told(query: &Packet<'_>) -> (RCODE, Vec<String>) {
        let bytes = answer(&query.build_bytes_vec().unwrap(), find).unwrap();
        let answer = Packet::parse(&bytes).unwrap();
        assert_eq!(answer.id(), 7);
        assert!(answer.has_flags(PacketFlag::RESPONSE));
        let data = answer.answers.iter().map(|record| match &record.rdata {
            RData::A(data) => std::net::Ipv4Addr::from(data.address).to_string(),
            RData::AAAA(data) => std::net::Ipv6Addr::from(data.address).to_string(),
            other => format!("{other:?}"),
        });
        (answer.rcode(), data.collect())
    }

    #[test]
    fn a_granted_name_has_its_addresses_and_nothing_else() {
        let of = |qtype| told(&query("API.example", qtype));
        assert_eq!(of(TYPE::A), (RCODE::NoError, vec!["192.0.2.1".into(), "192.0.2.2".into()]));
        assert_eq!(of(TYPE::AAAA), (RCODE::NoError, vec!["2001:db8::1".into()]));
        assert_eq!(of(TYPE::TXT), (RCODE::NoError, vec![]));
    }

    #[test]
    fn what_is_not_granted_does_not_exist() {
        for name in
            ["secret.tunnel.example", "x.api.example", "example", "1.2.0.192", "a b.example"]
        {
            assert_eq!(told(&query(name, TYPE::A)), (RCODE::NameError, vec![]), "{name}");
        }
        assert_eq!(told(&query("broken.example", TYPE::A)), (RCODE::ServerFailure, vec![]));
    }

    #[test]
    fn a_point_within_a_label_makes_no_other_name() {
        assert_eq!(told(&query(r"api\.example", TYPE::A)), (RCODE::NameError, vec![]));
    }

    #[test]
    fn odd_questions_are_refused() {
        let mut two = query("api.example", TYPE::A);
        two.questions.push(two.questions[0].clone());
        assert_eq!(told(&two).0, RCODE::FormatError);
        assert_eq!(told(&Packet::new_query(7)).0, RCODE::FormatError);
        let mut update = query("api.example", TYPE::A);
        *update.opcode_mut() = OPCODE::Update;
        assert_eq!(told(&update).0, RCODE::NotImplemented);
        let mut chaos = query("api.example", TYPE::A);
        chaos.questions[0].qclass = CLASS::CH.into();
        assert_eq!(told(&chaos).0, RCODE::Refused);
        assert!(answer(b"short", find).is_none());
        let reply = Packet::new_reply(7).build_bytes_vec().unwrap();
        assert!(answer(&reply, find).is_none(), "an answer is no question");
    }

    #[test]
    fn many_questions_come_in_one_connection_and_a_long_one_ends_it() {
        let (mut asker, answerer) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || serve(answerer, find));
        let question = query("api.example", TYPE::A).build_bytes_vec().unwrap();
        let framed =
            [&u16::try_from(question.len()).unwrap().to_be_bytes()[..], &question].concat();
        asker.write_all(&[framed.clone(), framed].concat()).unwrap();
        for _ in 0..2 {
            let answer = read(&mut asker).unwrap();
            assert_eq!(Packet::parse(&answer).unwrap().answers.len(), 2);
        }
        asker.write_all(&[0xff, 0xff]).unwrap();
        assert_eq!(read(&mut asker).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        serving.join().unwrap();
    }
}
