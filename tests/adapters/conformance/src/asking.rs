//! Asks the caller: what is asked, which answers count, and what is remembered until they come.

use nexus_router_sdk::{AdapterError, CallContext, Object};
use serde_json::{Value, json};

/// A request to the caller, by the name under which its answer comes.
pub(crate) struct Question {
    name: &'static str,
    method: Method,
    params: Value,
}

#[derive(Clone, Copy, PartialEq)]
enum Method {
    Elicit,
    Sample,
    Roots,
}

impl Method {
    const fn name(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation/create",
            Self::Sample => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    /// The capability of a caller that can answer.
    const fn capability(self) -> &'static str {
        match self {
            Self::Elicit => "elicitation",
            Self::Sample => "sampling",
            Self::Roots => "roots",
        }
    }
}

impl Question {
    /// Asks the user for values, all of them required.
    pub(crate) fn elicit(name: &'static str, message: &str, properties: &Value) -> Self {
        let required: Vec<&String> =
            properties.as_object().into_iter().flat_map(Object::keys).collect();
        let schema = json!({ "type": "object", "properties": properties, "required": required });
        Self::elicit_by(name, message, &schema)
    }

    /// Asks the user for values that a schema describes.
    pub(crate) fn elicit_by(name: &'static str, message: &str, schema: &Value) -> Self {
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        Self { name, method: Method::Elicit, params }
    }

    /// Asks the caller's model.
    pub(crate) fn sample(name: &'static str, text: &str, max_tokens: u32) -> Self {
        let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
        let params = json!({ "messages": [message], "maxTokens": max_tokens });
        Self { name, method: Method::Sample, params }
    }

    /// Asks for the directories that the caller works in.
    pub(crate) fn roots(name: &'static str) -> Self {
        Self { name, method: Method::Roots, params: json!({}) }
    }

    /// Says whether the caller can answer.
    pub(crate) fn is_answerable(&self, context: &CallContext) -> bool {
        context.client_capability(self.method.capability()).is_some()
    }

    /// Says whether an answer is one. A refusal is; what does not fit the question is not.
    fn takes(&self, answer: &Value) -> bool {
        match (self.method, answer["action"].as_str()) {
            (Method::Elicit, Some("accept")) => self.fits(&answer["content"]),
            (Method::Elicit, action) => matches!(action, Some("decline" | "cancel")),
            (Method::Sample, _) => !answer["content"].is_null(),
            (Method::Roots, _) => answer["roots"].is_array(),
        }
    }

    /// Says whether all that is required is there, and of its type.
    fn fits(&self, content: &Value) -> bool {
        let schema = &self.params["requestedSchema"];
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        let fits = |name: &Value| {
            let name = name.as_str().unwrap_or_default();
            let value = &content[name];
            match schema["properties"][name]["type"].as_str() {
                Some("string") => value.is_string(),
                Some("boolean") => value.is_boolean(),
                _ => !value.is_null(),
            }
        };
        content.is_object() && required.iter().all(fits)
    }
}

/// What the caller answered.
#[derive(Debug)]
pub(crate) struct Answers(Object);

impl Answers {
    /// Returns an answer.
    pub(crate) fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    /// Returns what the user filled in, unless it refused.
    pub(crate) fn accepted(&self, name: &str) -> Option<&Object> {
        let answer = self.get(name);
        answer["content"].as_object().filter(|_| answer["action"] == "accept")
    }
}

/// Asks until every question is answered; nothing is remembered but what the caller sends along.
///
/// # Errors
/// The error that asks for what is missing, or the one that says that the caller cannot answer.
pub(crate) fn ask(context: &CallContext, questions: &[Question]) -> Result<Answers, AdapterError> {
    let answers = answered(context, questions, Object::new());
    missing(context, questions, &answers).map_or(Ok(Answers(answers)), |requests| {
        Err(AdapterError::input_required(&requests?, None))
    })
}

/// The same, with earlier answers remembered in a state. Answers that come without it do not count.
///
/// # Errors
/// As [`ask`].
pub(crate) fn ask_with_state(
    context: &CallContext,
    questions: &[Question],
) -> Result<Answers, AdapterError> {
    let answers = match context.input_state() {
        None => Object::new(),
        Some(state) => {
            let before = serde_json::from_str(state)
                .map_err(|error| AdapterError::bug(format!("the state is not ours: {error}")))?;
            answered(context, questions, before)
        }
    };
    missing(context, questions, &answers).map_or(Ok(Answers(answers.clone())), |requests| {
        let state = Value::Object(answers).to_string();
        Err(AdapterError::input_required(&requests?, Some(&state)))
    })
}

/// Adds the answers that came with this call.
fn answered(context: &CallContext, questions: &[Question], mut answers: Object) -> Object {
    for question in questions {
        if let Some(answer) = context.input(question.name).filter(|it| question.takes(it)) {
            answers.insert(question.name.to_owned(), answer.clone());
        }
    }
    answers
}

/// Returns the requests that are not answered, if there are any.
fn missing(
    context: &CallContext,
    questions: &[Question],
    answers: &Object,
) -> Option<Result<Object, AdapterError>> {
    let open: Vec<&Question> =
        questions.iter().filter(|question| !answers.contains_key(question.name)).collect();
    let lacking: Object = open
        .iter()
        .filter(|question| !question.is_answerable(context))
        .map(|question| (question.method.capability().to_owned(), json!({})))
        .collect();
    if !lacking.is_empty() {
        return Some(Err(AdapterError::client_lacks(&lacking.into())));
    }
    let request = |question: &&Question| {
        let request = json!({ "method": question.method.name(), "params": question.params });
        (question.name.to_owned(), request)
    };
    (!open.is_empty()).then(|| Ok(open.iter().map(request).collect()))
}

/// The text of what a model said.
pub(crate) fn sampled(answer: &Value) -> &str {
    answer["content"]["text"].as_str().unwrap_or("nothing that is text")
}

/// What a caller can do that can answer everything.
#[cfg(test)]
pub(crate) fn able() -> Object {
    ["elicitation", "sampling", "roots"]
        .map(|name| (name.to_owned(), json!({})))
        .into_iter()
        .collect()
}

/// What a user answers that fills in a form.
#[cfg(test)]
pub(crate) fn accept(content: &Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[cfg(test)]
mod tests {
    use nexus_router_sdk::testing::Recorder;
    use nexus_router_sdk::{Interaction, code};

    use super::*;
    use crate::fixture::object;

    fn context(inputs: Value, state: Option<&str>, client: Object) -> CallContext {
        let state = state.map(str::to_owned);
        Recorder::default().context_with(Interaction { inputs: object(inputs), state, client })
    }

    fn name() -> Question {
        Question::elicit("who", "Who?", &json!({ "name": { "type": "string" } }))
    }

    #[test]
    fn only_what_answers_the_question_counts() {
        let counts = |question: Question, answer: Value| {
            ask(&context(json!({ question.name: answer }), None, able()), &[question]).is_ok()
        };
        assert!(counts(name(), accept(&json!({ "name": "Ada" }))));
        assert!(counts(name(), json!({ "action": "decline" })));
        for wrong in [
            json!(12345),
            json!(null),
            json!([]),
            json!({}),
            json!({ "action": "shrug" }),
            accept(&json!({})),
            accept(&json!({ "name": 1 })),
            json!({ "action": "accept" }),
        ] {
            assert!(!counts(name(), wrong.clone()), "{wrong}");
        }
        let sample = || Question::sample("model", "Well?", 10);
        assert!(counts(sample(), json!({ "role": "assistant", "content": { "type": "text" } })));
        assert!(!counts(sample(), json!({ "role": "assistant" })));
        assert!(counts(Question::roots("roots"), json!({ "roots": [] })));
        assert!(!counts(Question::roots("roots"), json!({ "roots": 1 })));
    }

    #[test]
    fn only_what_is_missing_is_asked_again() {
        let questions = [name(), Question::roots("roots")];
        let inputs = json!({ "roots": { "roots": [] }, "unknown": {} });
        let error = ask(&context(inputs, None, able()), &questions).unwrap_err();
        assert_eq!(error.code, code::INPUT_REQUIRED);
        let asked: Vec<&String> = error.details["requests"].as_object().unwrap().keys().collect();
        assert_eq!(asked, ["who"]);
        assert!(!error.details.contains_key("state"));
    }

    #[test]
    fn a_state_remembers_answers_and_they_count_only_beside_it() {
        let questions = [name(), Question::roots("roots")];
        let first = json!({ "who": accept(&json!({ "name": "Ada" })) });
        let ask = |inputs: Value, state: Option<&str>| {
            ask_with_state(&context(inputs, state, able()), &questions)
        };
        let asked = |error: &AdapterError| error.details["requests"].as_object().unwrap().len();
        let state = |error: &AdapterError| error.details["state"].as_str().unwrap().to_owned();

        let without = ask(first.clone(), None).unwrap_err();
        assert_eq!(asked(&without), 2);
        let second = ask(first, Some(&state(&without))).unwrap_err();
        assert_eq!(asked(&second), 1);
        assert_ne!(state(&without), state(&second));
        let answers = ask(json!({ "roots": { "roots": [] } }), Some(&state(&second))).unwrap();
        assert_eq!(answers.accepted("who").unwrap()["name"], "Ada");
        assert!(answers.get("roots").is_object() && answers.accepted("roots").is_none());
    }

    #[test]
    fn nobody_is_asked_what_it_cannot_answer() {
        let client = object(json!({ "sampling": {} }));
        let questions = [name(), Question::roots("roots"), Question::sample("model", "Well?", 10)];
        let error = ask(&context(json!({}), None, client), &questions).unwrap_err();
        assert_eq!(error.code, code::CLIENT_CAPABILITY_MISSING);
        assert_eq!(error.details["required"], json!({ "elicitation": {}, "roots": {} }));
    }
}
