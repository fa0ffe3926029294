//! What statements say: that a step was carried out (in-toto's link), and what tests gave (test-result).

use super::Error;
use super::statement::{Statement, Subject, fault_of};
use crate::digest::Digest;
use crate::json::{Object, Value};

/// The type of [`Link`].
pub const LINK: &str = "https://in-toto.io/attestation/link/v0.3";
/// The type of [`TestResult`].
pub const TEST_RESULT: &str = "https://in-toto.io/attestation/test-result/v0.1";

/// A step was carried out: from these materials, with this command, in this environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// Which step.
    pub name: String,
    /// The command and its arguments; may be empty.
    pub command: Vec<String>,
    /// What went in; each name once.
    pub materials: Vec<Subject>,
    /// What came of it besides the subjects.
    pub byproducts: Object,
    /// Where it was carried out.
    pub environment: Object,
}

/// A run of the engine, as far as its seal tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunLink<'a> {
    /// The digest of the plan.
    pub plan_sha256: Digest,
    /// The last link of the chain of its events.
    pub chain_head: Digest,
    /// How it ended.
    pub status: &'a str,
    /// How many events it has.
    pub events: u64,
    /// Which version of the router carried it out.
    pub router_version: &'a str,
    /// The digest of the table of roles that was in force.
    pub role_table_sha256: Digest,
}

impl Link {
    /// Returns what is said of a run.
    #[must_use]
    pub fn of_run(run: &RunLink<'_>) -> Self {
        let mut byproducts = Object::with_capacity(3);
        byproducts.insert("chain_head", run.chain_head.to_string());
        byproducts.insert("events", run.events);
        byproducts.insert("status", run.status);
        let mut environment = Object::with_capacity(2);
        environment.insert("role_table_sha256", run.role_table_sha256.to_string());
        environment.insert("router_version", run.router_version);
        let materials = vec![Subject::new("plan", run.plan_sha256)];
        Self { name: "run".to_owned(), command: Vec::new(), materials, byproducts, environment }
    }

    /// Says it about some bytes.
    #[must_use]
    pub fn about(self, subjects: Vec<Subject>) -> Statement {
        Statement { subjects, predicate_type: LINK.to_owned(), predicate: self.into_predicate() }
    }

    fn into_predicate(self) -> Value {
        let materials: Vec<Value> = self.materials.iter().map(Subject::to_value).collect();
        let mut link = Object::with_capacity(5);
        link.insert("byproducts", self.byproducts);
        link.insert("command", texts(self.command));
        link.insert("environment", self.environment);
        link.insert("materials", materials);
        link.insert("name", self.name);
        link.into()
    }

    /// Reads the link that a statement is.
    ///
    /// # Errors
    /// When the statement is of another type, or its predicate is not what [`about`](Self::about) makes.
    pub fn of(statement: &Statement) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Predicate { type_uri: LINK, reason };
        check_type(statement, LINK)?;
        let read = |predicate: &Value| {
            Some(Self {
                name: predicate.get("name")?.as_str()?.to_owned(),
                command: parse_texts(predicate.get("command")?)?,
                materials: Subject::parse_all(predicate.get("materials")?.as_array()?)?,
                byproducts: predicate.get("byproducts")?.as_object()?.clone(),
                environment: predicate.get("environment")?.as_object()?.clone(),
            })
        };
        let link = read(&statement.predicate).ok_or_else(|| {
            wrong("name, command, materials, byproducts or environment is not there, or of another type".to_owned())
        })?;
        if let Some(fault) = fault_of(&link.materials) {
            return Err(wrong(format!("in its materials {fault}")));
        }
        if link.name.is_empty() {
            return Err(wrong("its name is empty".to_owned()));
        }
        if link.clone().into_predicate() != statement.predicate {
            return Err(wrong("it has members that such a predicate has not".to_owned()));
        }
        Ok(link)
    }
}

/// What came of some tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestOutcome {
    /// All passed.
    Passed,
    /// All passed, some with warnings.
    Warned,
    /// Some failed.
    Failed,
}

impl TestOutcome {
    const ALL: [Self; 3] = [Self::Passed, Self::Warned, Self::Failed];

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Warned => "WARNED",
            Self::Failed => "FAILED",
        }
    }
}

/// Tests were run with this configuration, and gave this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// What they were run with; each name once.
    pub configuration: Vec<Subject>,
    /// Which passed.
    pub passed: Vec<String>,
    /// Which passed with warnings.
    pub warned: Vec<String>,
    /// Which failed.
    pub failed: Vec<String>,
}

impl TestResult {
    /// Returns what came of all of them together.
    #[must_use]
    pub fn outcome(&self) -> TestOutcome {
        match (self.failed.is_empty(), self.warned.is_empty()) {
            (true, true) => TestOutcome::Passed,
            (true, false) => TestOutcome::Warned,
            (false, _) => TestOutcome::Failed,
        }
    }

    /// Says it about some bytes.
    #[must_use]
    pub fn about(self, subjects: Vec<Subject>) -> Statement {
        let predicate = self.into_predicate();
        Statement { subjects, predicate_type: TEST_RESULT.to_owned(), predicate }
    }

    fn into_predicate(self) -> Value {
        let configuration: Vec<Value> = self.configuration.iter().map(Subject::to_value).collect();
        let mut result = Object::with_capacity(5);
        result.insert("configuration", configuration);
        result.insert("result", self.outcome().name());
        result.insert("failedTests", texts(self.failed));
        result.insert("passedTests", texts(self.passed));
        result.insert("warnedTests", texts(self.warned));
        result.into()
    }

    /// Reads the result that a statement is.
    ///
    /// # Errors
    /// When the statement is of another type, or its predicate is not what [`about`](Self::about) makes; also when its
    /// result is not what its lists say.
    pub fn of(statement: &Statement) -> Result<Self, Error> {
        let wrong = |reason: String| Error::Predicate { type_uri: TEST_RESULT, reason };
        check_type(statement, TEST_RESULT)?;
        let read = |predicate: &Value| {
            let result = Self {
                configuration: Subject::parse_all(predicate.get("configuration")?.as_array()?)?,
                passed: parse_texts(predicate.get("passedTests")?)?,
                warned: parse_texts(predicate.get("warnedTests")?)?,
                failed: parse_texts(predicate.get("failedTests")?)?,
            };
            Some((result, predicate.get("result")?.as_str()?.to_owned()))
        };
        let (result, told) = read(&statement.predicate).ok_or_else(|| {
            wrong("result, configuration, passedTests, warnedTests or failedTests is not there, or of another type".to_owned())
        })?;
        if let Some(fault) = fault_of(&result.configuration) {
            return Err(wrong(format!("in its configuration {fault}")));
        }
        let outcome = result.outcome();
        if !TestOutcome::ALL.iter().any(|known| known.name() == told) || outcome.name() != told {
            return Err(wrong(format!("it says {told:?}, and its lists say {:?}", outcome.name())));
        }
        if result.clone().into_predicate() != statement.predicate {
            return Err(wrong("it has members that such a predicate has not".to_owned()));
        }
        Ok(result)
    }
}

fn check_type(statement: &Statement, type_uri: &'static str) -> Result<(), Error> {
    if statement.predicate_type == type_uri {
        return Ok(());
    }
    let reason = format!("it is a {:?}", statement.predicate_type);
    Err(Error::Predicate { type_uri, reason })
}

fn texts(texts: Vec<String>) -> Value {
    texts.into_iter().map(Value::from).collect::<Vec<_>>().into()
}

fn parse_texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects() -> Vec<Subject> {
        vec![Subject::new("manifest.sha256.json", Digest::of(b"m"))]
    }

    fn run() -> Link {
        Link::of_run(&RunLink {
            plan_sha256: Digest::of(b"plan"),
            chain_head: Digest::of(b"head"),
            status: "completed",
            events: 7,
            router_version: "1.2.3",
            role_table_sha256: Digest::of(b"roles"),
        })
    }

    #[test]
    fn a_link_reads_back_through_its_bytes() {
        for link in [
            run(),
            Link { name: "x".to_owned(), ..Link::default() },
            Link { command: vec!["ls".to_owned(), String::new()], ..run() },
        ] {
            let bytes = link.clone().about(subjects()).to_bytes().unwrap();
            assert_eq!(Link::of(&Statement::parse(&bytes).unwrap()).unwrap(), link);
        }
    }

    #[test]
    fn a_link_that_is_none_is_refused() {
        let change = |pointer: &str, value: Option<Value>| {
            let mut statement = run().about(subjects());
            let Value::Object(link) = &mut statement.predicate else { panic!() };
            link.remove(pointer);
            if let Some(value) = value {
                link.insert(pointer, value);
            }
            Link::of(&statement)
        };
        assert!(change("byproducts", Some(Object::new().into())).is_ok());
        let twice = run().materials[0].to_value();
        for (name, value) in [
            ("name", None),
            ("name", Some("".into())),
            ("command", Some("ls".into())),
            ("command", Some(vec![Value::from(1)].into())),
            ("materials", Some(vec![twice.clone(), twice].into())),
            ("environment", None),
            ("other", Some(1.into())),
        ] {
            let refused = change(name, value.clone());
            assert!(matches!(refused, Err(Error::Predicate { .. })), "{name} {value:?}");
        }
        let mut other = run().about(subjects());
        other.predicate_type = TEST_RESULT.to_owned();
        assert!(Link::of(&other).is_err() && TestResult::of(&other).is_err());
    }

    #[test]
    fn a_test_result_says_what_its_lists_say() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        for (warned, failed, outcome) in [
            (names(&[]), names(&[]), "PASSED"),
            (names(&["w"]), names(&[]), "WARNED"),
            (names(&["w"]), names(&["f"]), "FAILED"),
        ] {
            let configuration = vec![Subject::new("contract", Digest::of(b"c"))];
            let result = TestResult { configuration, passed: names(&["p"]), warned, failed };
            let mut statement = result.clone().about(subjects());
            let bytes = statement.to_bytes().unwrap();
            assert_eq!(TestResult::of(&Statement::parse(&bytes).unwrap()).unwrap(), result);
            assert_eq!(statement.predicate.get("result").unwrap().as_str(), Some(outcome));
            let Value::Object(told) = &mut statement.predicate else { panic!() };
            told.insert("result", if outcome == "PASSED" { "FAILED" } else { "PASSED" });
            assert!(TestResult::of(&statement).is_err());
        }
    }
}
