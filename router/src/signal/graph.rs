//! What is wrong with contracts beside each other: collisions, and pointers that lead nowhere or round in circles.

use std::collections::{BTreeMap, HashMap};

use super::declaration::contract_hash;
use super::lint::{Finding, Severity};
use super::pattern::{SemverParts, is_id, pointer_parts, semver_parts};
use crate::json::{Object, Value};

/// So many contracts of a circle are named.
const NAMED: usize = 8;

/// A contract among others.
#[derive(Clone, Debug)]
pub struct Member {
    file: String,
    id: String,
    version: String,
    parts: SemverParts,
    hash: Option<String>,
    status: String,
    supersedes: Option<String>,
    replaced_by: Option<String>,
    sound: bool,
}

impl Member {
    /// Takes a contract up, if it has an id and a version. `sound` says whether it can be used.
    #[must_use]
    pub fn new(file: &str, declaration: &Object, sound: bool) -> Option<Self> {
        let text = |key: &str| declaration.get(key).and_then(Value::as_str).map(str::to_owned);
        let (id, version) = (text("adapter_id").filter(|id| is_id(id))?, text("adapter_version")?);
        Some(Self {
            file: file.to_owned(),
            parts: semver_parts(&version)?,
            id,
            version,
            hash: contract_hash(declaration).ok(),
            status: text("status").unwrap_or_else(|| "active".to_owned()),
            supersedes: text("supersedes"),
            replaced_by: text("replaced_by"),
            sound,
        })
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    fn name(&self) -> String {
        format!("{}@{}", self.id, self.version)
    }
}

/// Contracts beside each other.
#[derive(Clone, Debug, Default)]
pub struct Kinship<'a> {
    /// What is wrong, each with the file in which it is, errors first.
    pub findings: Vec<(&'a str, Finding)>,
    /// For each id the contract that it stands for: the highest version that is active and can be used.
    pub heads: Vec<&'a Member>,
}

impl<'a> Kinship<'a> {
    /// Looks at contracts beside each other.
    #[must_use]
    pub fn of(members: &'a [Member]) -> Self {
        let graph = Graph::new(members);
        let mut kinship = Self::default();
        graph.collisions(&mut kinship);
        graph.pointers(&mut kinship);
        graph.circles(&mut kinship);
        heads(members, &mut kinship);
        kinship.findings.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.severity));
        kinship
    }

    /// Says whether no finding is an error.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.findings.iter().all(|(_, finding)| finding.severity != Severity::Error)
    }

    fn tell(&mut self, member: &'a Member, finding: Finding) {
        self.findings.push((&member.file, finding));
    }
}

/// Which of two contracts a pointer says to be newer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pointer {
    Supersedes,
    ReplacedBy,
}

impl Pointer {
    const fn key(self) -> &'static str {
        match self {
            Self::Supersedes => "supersedes",
            Self::ReplacedBy => "replaced_by",
        }
    }

    fn of(self, member: &Member) -> Option<&str> {
        match self {
            Self::Supersedes => member.supersedes.as_deref(),
            Self::ReplacedBy => member.replaced_by.as_deref(),
        }
    }

    const fn other(self) -> Self {
        match self {
            Self::Supersedes => Self::ReplacedBy,
            Self::ReplacedBy => Self::Supersedes,
        }
    }
}

/// One version of one id, in as many files as it may be.
#[derive(Default)]
struct Node<'a> {
    members: Vec<&'a Member>,
    /// What is older than it, and who says so.
    older: Vec<(usize, &'a Member, Pointer)>,
}

struct Graph<'a> {
    nodes: Vec<Node<'a>>,
    places: HashMap<(&'a str, SemverParts), usize>,
}

impl<'a> Graph<'a> {
    fn new(members: &'a [Member]) -> Self {
        let mut graph = Self { nodes: Vec::new(), places: HashMap::new() };
        for member in members {
            let place = graph.places.entry((&member.id, member.parts.clone()));
            let place = *place.or_insert(graph.nodes.len());
            if place == graph.nodes.len() {
                graph.nodes.push(Node::default());
            }
            graph.nodes[place].members.push(member);
        }
        for member in members {
            for pointer in [Pointer::Supersedes, Pointer::ReplacedBy] {
                let (Some(own), Some(other)) = (
                    graph.place(&member.name()),
                    pointer.of(member).and_then(|it| graph.place(it)),
                ) else {
                    continue;
                };
                let (newer, older) = match pointer {
                    Pointer::Supersedes => (own, other),
                    Pointer::ReplacedBy => (other, own),
                };
                graph.nodes[newer].older.push((older, member, pointer));
            }
        }
        graph
    }

    fn place(&self, pointer: &str) -> Option<usize> {
        self.places.get(&pointer_parts(pointer)?).copied()
    }

    /// One version of one id has one hash.
    fn collisions(&self, kinship: &mut Kinship<'a>) {
        for node in &self.nodes {
            let Some((first, rest)) = node.members.split_first() else { continue };
            for member in rest.iter().filter(|member| member.hash != first.hash) {
                let shown = |it: &Member| it.hash.clone().unwrap_or_else(|| "none".to_owned());
                let message = format!(
                    "collision: {} has contract_hash {} here and {} in {}",
                    member.name(),
                    shown(member),
                    shown(first),
                    first.file
                );
                let advice = "give one of them another version with nexus-router contract bump";
                let finding = Finding::error("/contract_hash", message).advised(advice);
                kinship.tell(member, finding);
            }
        }
    }

    /// Pointers lead to contracts that are there, and do not contradict each other.
    fn pointers(&self, kinship: &mut Kinship<'a>) {
        for member in self.nodes.iter().flat_map(|node| node.members.iter().copied()) {
            for pointer in [Pointer::Supersedes, Pointer::ReplacedBy] {
                // What is no pointer was told of the contract itself.
                let Some(text) = pointer.of(member) else { continue };
                let Some((id, parts)) = pointer_parts(text) else { continue };
                let key = pointer.key();
                let mut warn = |message: String, advice| {
                    let finding = Finding::warning(format!("/{key}"), message).advised(advice);
                    kinship.tell(member, finding);
                };
                let forward = pointer == Pointer::ReplacedBy;
                if id == member.id && parts != member.parts && (parts > member.parts) != forward {
                    let order = if forward { "lower" } else { "higher" };
                    warn(
                        format!("{key} names {text}, which is {order} than {}", member.version),
                        "supersedes names a lower version of the same id, replaced_by a higher one",
                    );
                }
                let Some(node) = self.place(text).map(|place| &self.nodes[place]) else {
                    warn(
                        format!(
                            "dangling: {key} names {text}, which is not among the contracts given"
                        ),
                        "name the contract that it points to too, or take the pointer out",
                    );
                    continue;
                };
                if forward && node.members.iter().all(|it| it.status == "revoked") {
                    warn(
                        format!("replaced_by names {text}, which is revoked"),
                        "name a contract that is active",
                    );
                }
                let back = node.members.first().and_then(|it| pointer.other().of(it));
                let back = back.filter(|back| self.place(back) != self.place(&member.name()));
                if let Some(back) = back {
                    let other = pointer.other().key();
                    warn(
                        format!(
                            "{key} names {text}, whose {other} names {back} instead of {}",
                            member.name()
                        ),
                        "let each of them name the other, or take one pointer out",
                    );
                }
            }
        }
    }

    /// Nothing is newer than itself. Looks at every edge once, without recursion.
    fn circles(&self, kinship: &mut Kinship<'a>) {
        // Not seen yet, on the way at a place, or done.
        const DONE: usize = usize::MAX;
        let mut seen: Vec<Option<usize>> = vec![None; self.nodes.len()];
        for start in 0..self.nodes.len() {
            if seen[start].is_some() {
                continue;
            }
            // Each node on the way with the edge that is looked at next.
            let mut way = vec![(start, 0)];
            seen[start] = Some(0);
            while let Some((node, next)) = way.last_mut() {
                let Some((older, member, pointer)) = self.nodes[*node].older.get(*next).copied()
                else {
                    seen[*node] = Some(DONE);
                    way.pop();
                    continue;
                };
                *next += 1;
                match seen[older] {
                    None => {
                        seen[older] = Some(way.len());
                        way.push((older, 0));
                    }
                    Some(DONE) => {}
                    Some(place) => {
                        let message = self.circle(&way[place..]);
                        let finding = Finding::error(format!("/{}", pointer.key()), message)
                            .advised("take out the pointer that is not true");
                        kinship.tell(member, finding);
                    }
                }
            }
        }
    }

    fn circle(&self, way: &[(usize, usize)]) -> String {
        let name = |place: usize| {
            self.nodes[place].members.first().map_or_else(String::new, |it| it.name())
        };
        let mut names: Vec<String> =
            way.iter().take(NAMED).map(|(place, _)| name(*place)).collect();
        if way.len() > NAMED {
            names.push(format!("… {} more", way.len() - NAMED));
        }
        names.extend(way.first().map(|(place, _)| name(*place)));
        format!("cycle: each of these is newer than the next: {}", names.join(", "))
    }
}

/// Finds the contract that each id stands for.
fn heads<'a>(members: &'a [Member], kinship: &mut Kinship<'a>) {
    let mut ids: BTreeMap<&str, (Option<&Member>, &Member)> = BTreeMap::new();
    for member in members {
        let (head, highest) = ids.entry(&member.id).or_insert((None, member));
        if member.parts > highest.parts {
            *highest = member;
        }
        let active = member.sound && member.status == "active";
        if active && head.is_none_or(|head| member.parts > head.parts) {
            *head = Some(member);
        }
    }
    for (id, (head, highest)) in ids {
        match head {
            Some(head) => kinship.heads.push(head),
            None => {
                let message = format!("no active head: no version of {id} is active and sound");
                let advice = "mend or add a version whose status is active, or take the id out";
                kinship.tell(highest, Finding::warning("/status", message).advised(advice));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::scaffold;
    use super::*;

    fn member(name: &str, lifecycle: &[(&str, &str)]) -> Member {
        let (id, version) = name.split_once('@').unwrap();
        let mut contract = scaffold(id, version, "a").unwrap();
        for (key, value) in lifecycle {
            contract.insert(*key, *value);
        }
        Member::new(&format!("{name}.json"), &contract, true).unwrap()
    }

    fn told(members: &[Member]) -> Vec<String> {
        let told = |(file, finding): &(&str, Finding)| {
            let kind = if finding.severity == Severity::Error { 'E' } else { 'W' };
            let words = finding.message.split([':', ',']).next().unwrap().to_owned();
            format!("{kind} {file} {} {words}", finding.pointer)
        };
        Kinship::of(members).findings.iter().map(told).collect()
    }

    #[test]
    fn what_fits_together_has_no_findings_and_its_heads() {
        let members = [
            member("a.b@1.0.0", &[("status", "deprecated"), ("replaced_by", "a.b@1.10.0")]),
            member("a.b@1.10.0", &[("supersedes", "a.b@1.0.0"), ("replaced_by", "a.c@1.0.0")]),
            member("a.b@1.9.0", &[]),
            member("a.c@1.0.0", &[]),
            member("a.c@1.0.0", &[]),
        ];
        let kinship = Kinship::of(&members);
        assert_eq!(kinship.findings, []);
        let heads: Vec<String> = kinship.heads.iter().map(|head| head.name()).collect();
        assert_eq!(heads, ["a.b@1.10.0", "a.c@1.0.0"]);
    }

    #[test]
    fn one_version_has_one_hash() {
        let mut other = member("a.b@01.0.0", &[]);
        other.hash = None;
        let told = told(&[member("a.b@1.0.0", &[]), other]);
        assert_eq!(told, ["E a.b@01.0.0.json /contract_hash collision"]);
    }

    #[test]
    fn pointers_lead_to_what_is_there_and_agree() {
        assert_eq!(
            told(&[
                member("a.b@1.0.0", &[("supersedes", "a.b@0.1.0")]),
                member("a.b@2.0.0", &[("replaced_by", "a.b@1.0.0")]),
                member("a.b@3.0.0", &[("supersedes", "no pointer")]),
                member("a.d@1.0.0", &[("status", "revoked")]),
                member("a.e@1.0.0", &[("replaced_by", "a.d@1.0.0")]),
            ]),
            [
                "W a.b@1.0.0.json /supersedes dangling",
                "W a.b@2.0.0.json /replaced_by replaced_by names a.b@1.0.0",
                "W a.b@2.0.0.json /replaced_by replaced_by names a.b@1.0.0",
                "W a.e@1.0.0.json /replaced_by replaced_by names a.d@1.0.0",
                "W a.d@1.0.0.json /status no active head",
            ]
        );
    }

    #[test]
    fn nothing_is_newer_than_itself() {
        assert_eq!(
            told(&[member("a.b@1.0.0", &[("supersedes", "a.b@1.0.0")])]),
            ["E a.b@1.0.0.json /supersedes cycle"]
        );
        let circle = [
            member("a.b@1.0.0", &[("supersedes", "a.c@1.0.0")]),
            member("a.c@1.0.0", &[("supersedes", "a.d@1.0.0")]),
            member("a.d@1.0.0", &[("supersedes", "a.b@1.0.0")]),
        ];
        assert_eq!(told(&circle), ["E a.d@1.0.0.json /supersedes cycle"]);
        // Both pointers to the same contract: newer than it, and older.
        let both = [
            member("a.b@1.0.0", &[("supersedes", "a.c@1.0.0"), ("replaced_by", "a.c@1.0.0")]),
            member("a.c@1.0.0", &[]),
        ];
        assert_eq!(told(&both).len(), 1);
        assert!(!Kinship::of(&both).ok());
    }

    #[test]
    fn a_long_circle_is_found_without_recursion() {
        let name = |n: usize| format!("a.b{}@1.0.0", n % 20_000);
        let members: Vec<Member> =
            (0..20_000).map(|n| member(&name(n), &[("replaced_by", &name(n + 1))])).collect();
        let kinship = Kinship::of(&members);
        assert!(kinship.findings[0].1.message.contains("… 19992 more"));
        assert_eq!(kinship.findings.len(), 1);
    }
}
