//! What a server knows while it runs.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::{WireFormat, draft::Draft};

/// A request as the server received it.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// The path, without its query.
    pub path: String,
    /// The model that is asked for.
    pub model: String,
    /// Header names, in lower case, and values, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl RecordedRequest {
    /// The first header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What the server and its connections share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) format: WireFormat,
    script: Mutex<Script>,
    /// Whether connections end in a reset.
    resets: bool,
    requests: Mutex<Vec<RecordedRequest>>,
    /// Of which models the client closed a body before its end.
    closed: Mutex<HashSet<String>>,
    pub(super) counts: watch::Sender<Counts>,
}

/// What is answered.
#[derive(Debug)]
pub(super) enum Script {
    Once(VecDeque<Draft>),
    Repeating(Box<Draft>),
    /// By the model that is asked for.
    ByModel(HashMap<String, Draft>),
}

#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) connections: usize,
    pub(super) requests: usize,
    pub(super) client_closes: usize,
}

impl Shared {
    pub(super) fn new(format: WireFormat, script: Script) -> Self {
        let resets = match &script {
            Script::Once(answers) => answers.iter().any(Draft::resets),
            Script::Repeating(answer) => answer.resets(),
            Script::ByModel(answers) => answers.values().any(Draft::resets),
        };
        Self {
            format,
            script: Mutex::new(script),
            resets,
            requests: Mutex::default(),
            closed: Mutex::default(),
            counts: watch::Sender::new(Counts::default()),
        }
    }

    pub(super) fn resets(&self) -> bool {
        self.resets
    }

    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().clone()
    }

    pub(super) fn requests_for(&self, model: &str) -> usize {
        self.requests.lock().iter().filter(|request| request.model == model).count()
    }

    pub(super) fn was_closed(&self, model: &str) -> bool {
        self.closed.lock().contains(model)
    }

    /// Takes down a request; gives the answer that is next, none if the script is at its end.
    pub(super) fn next(&self, request: RecordedRequest) -> Option<Draft> {
        let answer = match &mut *self.script.lock() {
            Script::Once(answers) => answers.pop_front(),
            Script::Repeating(answer) => Some((**answer).clone()),
            Script::ByModel(answers) => answers.get(&request.model).cloned(),
        };
        self.requests.lock().push(request);
        self.counts.send_modify(|counts| counts.requests += 1);
        answer
    }

    /// Takes down that the client closed a body of this model before its end.
    pub(super) fn client_closed(&self, model: &str) {
        self.closed.lock().insert(model.to_owned());
        self.counts.send_modify(|counts| counts.client_closes += 1);
    }
}
