//! A session that is written down: records become steps.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::{Map, Value, json};
use turnwright_core::{
    CallId, Id, ImageRef, Message, Origin, Part, Role, SessionId, TokenUsage, ToolCall, ToolDefinition,
    ToolResult, TurnId,
};
use turnwright_hook::instrument::CallScope;
use turnwright_react_runtime::{Record, RecordKind, TurnEventKind, TurnFinished};

use super::document::{
    Call, Content, ContentPart, Document, FinalMetrics, ImageSource, Metrics, Observation, Observed, Source,
    Step, Subagent,
};

/// Which model call of a session: the turn, the attempt, the iteration.
pub(super) type At = (TurnId, u32, u32);

/// What only the innermost core of a model call sees.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) scope: Id<CallScope>,
    pub(super) system: Option<Arc<str>>,
    pub(super) tools: Arc<[Arc<ToolDefinition>]>,
}

/// The session of a subagent that a call started.
#[derive(Debug, PartialEq)]
pub(super) struct Child {
    pub(super) call: CallId,
    pub(super) session: SessionId,
    pub(super) file: String,
}

/// One session whose leg runs.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) document: Document,
    /// What is not in the file yet.
    pub(super) is_changed: bool,
    /// The leg is over.
    pub(super) is_over: bool,
    /// The system prompt of the last model call.
    prompt: Option<String>,
    asked: HashMap<At, Vec<Asked>>,
    children: Vec<Child>,
    at: Option<At>,
    call: ModelCall,
}

/// The model call that is under way, or was last.
#[derive(Debug, Default)]
struct ModelCall {
    model: Option<String>,
    /// What its attempts used, and how many of them used something.
    usage: Option<TokenUsage>,
    used: u32,
    step: Option<usize>,
    is_open: bool,
}

impl Open {
    pub(super) fn new(document: Document) -> Self {
        let first = document.steps.first().filter(|step| step.source == Source::System);
        let prompt = first.and_then(|step| match &step.message {
            Content::Text(text) => Some(text.clone()),
            Content::Parts(_) => None,
        });
        Self {
            document,
            is_changed: false,
            is_over: false,
            prompt,
            asked: HashMap::new(),
            children: Vec::new(),
            at: None,
            call: ModelCall::default(),
        }
    }

    pub(super) fn asked(&mut self, at: At, asked: Asked) {
        let all = self.asked.entry(at).or_default();
        // An instrumentation that a child inherited and has itself too is called twice.
        if !all.iter().any(|one| one.scope == asked.scope) {
            all.push(asked);
        }
    }

    pub(super) fn child(&mut self, child: Child) {
        if !self.children.contains(&child) {
            self.children.push(child);
        }
    }

    pub(super) fn take_children(&mut self) -> Vec<Child> {
        std::mem::take(&mut self.children)
    }

    pub(super) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Something was to be told, and was not.
    pub(super) fn is_incomplete(&mut self, dropped: u64) {
        self.document.notes =
            Some(format!("Steps may be missing: {dropped} records came faster than they were written."));
        self.is_changed = true;
    }

    /// Images of data URLs are handed out, to be written beside the document.
    pub(super) fn record(&mut self, record: &Record, images: &mut Images) {
        self.is_changed = true;
        match &record.kind {
            RecordKind::Message(message) => self.message(record, message, images),
            RecordKind::ModelCallStarted { model } => {
                self.call = ModelCall { model: Some(model.clone()), is_open: true, ..ModelCall::default() };
                self.document.agent.model_name.get_or_insert_with(|| model.clone());
            }
            RecordKind::ModelCallFinished { error, .. } => {
                let error = error.as_ref().map(|error| json!({"kind": error.kind, "message": error.message}));
                if self.call.is_open && (error.is_some() || self.call.usage.is_some()) {
                    let step = self.step_of_call(record);
                    if let Some(error) = error {
                        self.document.steps[step].extra.insert("error".into(), error);
                    }
                }
            }
            RecordKind::Event(event) => self.event(record, event),
            _ => self.is_changed = false,
        }
    }

    fn event(&mut self, record: &Record, event: &TurnEventKind) {
        match event {
            TurnEventKind::TurnStarted { agent, .. } if self.document.agent.name.is_empty() => {
                self.document.agent.name.clone_from(agent);
            }
            TurnEventKind::IterationStarted { iteration, attempt } => {
                self.at = Some((record.turn, *attempt, *iteration));
            }
            TurnEventKind::Usage { usage, purpose: None } => {
                let call = &mut self.call;
                call.usage = Some(call.usage.map_or(*usage, |before| before.plus(*usage)));
                call.used += 1;
                if let Some(step) = call.step {
                    self.measure(step);
                }
            }
            TurnEventKind::Usage { usage, purpose: Some(purpose) } => {
                let extra = &mut self.document.final_metrics.get_or_insert_with(FinalMetrics::default).extra;
                let beside = extra.entry(purpose.clone()).or_insert(Value::Null);
                let before: Option<TokenUsage> = serde_json::from_value(beside.take()).ok();
                *beside = json!(before.map_or(*usage, |before| before.plus(*usage)));
            }
            TurnEventKind::Retry { model, .. } => self.call.model = Some(model.clone()),
            TurnEventKind::ApprovalRequested(request) => {
                self.note_on_call(
                    &request.call.id,
                    "approval",
                    json!({"requested": true, "reason": request.reason}),
                );
            }
            TurnEventKind::ApprovalResolved { id, allowed, actor } => {
                self.note_on_call(id, "approval", json!({"allowed": allowed, "actor": actor}));
            }
            TurnEventKind::InDoubt { id, recovery } => {
                self.note_on_call(id, "in_doubt", json!({"recovery": recovery}));
            }
            TurnEventKind::TurnFinished(finished) => self.finished(record, finished),
            _ => {}
        }
    }

    fn message(&mut self, record: &Record, message: &Message, images: &mut Images) {
        let mut extra = Map::new();
        let source = match (message.role, &message.origin) {
            (Role::Assistant, _) => return self.answer(record, message, images),
            (Role::Tool, _) => {
                return message.tool_results().for_each(|result| self.result(record, result, images));
            }
            (Role::System, _) => Source::System,
            (Role::User, Origin::Summary { .. }) => {
                let what = json!({"type": "summary", "boundary": "replace"});
                extra.insert("context_management".into(), what);
                for step in &mut self.document.steps {
                    step.is_copied_context = Some(true);
                }
                Source::System
            }
            (Role::User, origin) => {
                if *origin != Origin::Conversation {
                    extra.insert("origin".into(), json!(origin));
                }
                Source::User
            }
        };
        let message = content(&message.parts, images);
        self.push(record, Step { source, message, extra, ..Step::default() });
    }

    fn answer(&mut self, record: &Record, message: &Message, images: &mut Images) {
        let is_filled = |step: &Step| step.message != Content::default() || !step.tool_calls.is_empty();
        let is_of_call =
            self.call.is_open && !self.call.step.is_some_and(|step| is_filled(&self.document.steps[step]));
        // Words that no model said, such as those of a turn that was ended.
        let at = if is_of_call { self.step_of_call(record) } else { self.said_by_nobody(record) };
        let step = &mut self.document.steps[at];
        step.message = content(&message.parts, images);
        let reasoning: Vec<_> = message
            .parts
            .iter()
            .filter_map(|part| match part {
                Part::Reasoning(reasoning) if !reasoning.text.is_empty() => Some(reasoning.text.as_str()),
                _ => None,
            })
            .collect();
        if !reasoning.is_empty() && step.llm_call_count != Some(0) {
            step.reasoning_content = Some(reasoning.join("\n"));
        }
        step.tool_calls = message.tool_calls().map(call).collect();
        if let Some(interrupted) = &message.interrupted {
            step.extra.insert("interrupted".into(), json!(interrupted));
        }
    }

    fn said_by_nobody(&mut self, record: &Record) -> usize {
        self.push(record, Step { source: Source::Agent, llm_call_count: Some(0), ..Step::default() })
    }

    /// The step of the model call that is under way, which begins with the first that is known of its answer.
    fn step_of_call(&mut self, record: &Record) -> usize {
        if let Some(step) = self.call.step {
            return step;
        }
        // On a resumed leg the iteration may have begun on an earlier one.
        let at = self.at.filter(|at| self.asked.contains_key(at));
        let at = at.or_else(|| self.asked.keys().find(|(turn, ..)| *turn == record.turn).copied());
        let asked = at.and_then(|at| self.asked.remove(&at)).unwrap_or_default();
        let prompt = asked.last().and_then(|asked| asked.system.as_deref());
        let mut extra = Map::new();
        if let Some(prompt) = prompt.filter(|prompt| self.prompt.as_deref() != Some(*prompt)) {
            let step =
                Step { source: Source::System, message: Content::Text(prompt.into()), ..Step::default() };
            match self.prompt.replace(prompt.to_owned()) {
                // It stands first, wherever it is first seen.
                None => {
                    let timestamp = self.document.steps.first().and_then(|first| first.timestamp.clone());
                    self.document.steps.insert(0, Step { timestamp, ..step });
                }
                Some(_) => {
                    self.push(record, step);
                    extra.insert("system_prompt_changed".into(), true.into());
                }
            }
        }
        if let Some(asked) = asked.last() {
            self.document.agent.tool_definitions = asked.tools.iter().map(|tool| definition(tool)).collect();
        }
        let attempts: HashSet<_> = asked.iter().map(|asked| asked.scope).collect();
        if !attempts.is_empty() && self.call.used == 0 {
            // It was asked; what it used is not known.
            self.call.used = 1;
        }
        let model =
            self.call.model.clone().filter(|model| self.document.agent.model_name.as_ref() != Some(model));
        let at =
            self.push(record, Step { source: Source::Agent, model_name: model, extra, ..Step::default() });
        self.call.step = Some(at);
        self.measure(at);
        at
    }

    /// What a step's model call used.
    fn measure(&mut self, step: usize) {
        let call = &self.call;
        let step = &mut self.document.steps[step];
        step.llm_call_count = Some(call.used);
        step.metrics = call.usage.map(Metrics::from);
    }

    fn result(&mut self, record: &Record, result: &ToolResult, images: &mut Images) {
        let id = result.call_id();
        let mut extra = Map::new();
        if let Some(error) = &result.error {
            extra.insert("error".into(), json!({"kind": error.kind.name(), "message": error.to_string()}));
        }
        if let Some(elapsed) = result.elapsed {
            extra.insert("elapsed_ms".into(), json!(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)));
        }
        if let Some(ran_with) = &result.ran_with {
            extra.insert("ran_with".into(), json!(ran_with));
        }
        let mine = self.children.extract_if(.., |child| child.call == *id);
        let subagent_trajectory_ref = mine
            .map(|child| Subagent { trajectory_path: child.file, session_id: child.session.to_string() })
            .collect();
        let parts: Vec<_> = std::iter::once(Part::text(result.content.clone()))
            .chain(result.images.iter().cloned().map(Part::Image))
            .collect();
        let content = content(&parts, images);
        let mut observed =
            Observed { source_call_id: Some(id.to_string()), content, subagent_trajectory_ref, extra };
        let step = self.find_call(id).map(|(step, _)| step);
        let step = step.unwrap_or_else(|| {
            // Its call was before what is written here.
            observed.source_call_id = None;
            observed.extra.insert("tool".into(), json!(result.tool()));
            self.push(record, Step { source: Source::System, ..Step::default() })
        });
        self.document.steps[step].observation.get_or_insert_with(Observation::default).results.push(observed);
    }

    fn finished(&mut self, record: &Record, finished: &TurnFinished) {
        self.is_over = true;
        self.call = ModelCall::default();
        self.asked.retain(|(turn, ..), _| *turn != record.turn);
        let outcome = json!(finished.outcome);
        let words = outcome.as_str().unwrap_or_default();
        if finished.terminal && words != "completed" {
            let mut extra = Map::from_iter([("outcome".to_owned(), outcome.clone())]);
            if let Some(error) = &finished.error {
                extra.insert("error".into(), json!({"kind": error.kind, "message": error.message}));
            }
            if let Some(cause) = &finished.cancelled_by {
                extra.insert("cancelled_by".into(), json!(cause));
            }
            let message = Content::Text(format!("The turn ended: {}.", words.replace('_', " ")));
            self.push(record, Step { source: Source::System, message, extra, ..Step::default() });
        }
        self.document.extra.insert("outcome".into(), outcome);
    }

    fn push(&mut self, record: &Record, step: Step) -> usize {
        self.document.steps.push(Step { timestamp: Some(record.at.to_string()), ..step });
        self.document.steps.len() - 1
    }

    fn find_call(&self, id: &CallId) -> Option<(usize, usize)> {
        self.document.steps.iter().enumerate().rev().find_map(|(at, step)| {
            let call = step.tool_calls.iter().position(|call| call.tool_call_id == id.as_str())?;
            Some((at, call))
        })
    }

    fn note_on_call(&mut self, id: &CallId, name: &str, what: Value) {
        if let Some((step, call)) = self.find_call(id) {
            self.document.steps[step].tool_calls[call].extra.insert(name.to_owned(), what);
        }
    }
}

fn call(call: &ToolCall) -> Call {
    let arguments = match call.arguments_value() {
        Ok(Value::Object(arguments)) => arguments,
        Ok(Value::Null) => Map::new(),
        _ => Map::from_iter([("raw".to_owned(), json!(call.arguments))]),
    };
    let (tool_call_id, function_name) = (call.id.to_string(), call.name.clone());
    Call { tool_call_id, function_name, arguments, extra: Map::new() }
}

/// As OpenAI has functions.
fn definition(tool: &ToolDefinition) -> Value {
    let ToolDefinition { name, description, parameters, .. } = tool;
    json!({"type": "function", "function": {"name": name, "description": description, "parameters": parameters}})
}

/// Images that stand in data URLs, to be written beside documents.
#[derive(Debug, Default)]
pub(super) struct Images(pub(super) Vec<(String, Vec<u8>)>);

/// Text, and images where there are any.
fn content(parts: &[Part], images: &mut Images) -> Content {
    if !parts.iter().any(|part| matches!(part, Part::Image(_))) {
        return Content::Text(parts.iter().filter_map(Part::as_text).collect());
    }
    let shown = parts.iter().filter_map(|part| match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(ContentPart::Text { text: text.clone() }),
        Part::Image(image) => Some(images.shown(image)),
        _ => None,
    });
    Content::Parts(shown.collect())
}

impl Images {
    /// An image by reference: its address, or the file it is written to. In words where the format has no place for it.
    fn shown(&mut self, image: &ImageRef) -> ContentPart {
        let of_format = |media: &str| {
            let ending = media.strip_prefix("image/")?;
            matches!(ending, "jpeg" | "png" | "gif" | "webp").then(|| ending.to_owned())
        };
        let found = match super::data_url(&image.uri) {
            Some((media, bytes)) => of_format(&media).map(|ending| {
                let path = format!("images/{}.{ending}", super::digest(&bytes));
                if !self.0.iter().any(|(known, _)| *known == path) {
                    self.0.push((path.clone(), bytes));
                }
                ImageSource { media_type: media, path }
            }),
            None => {
                let named = image.media_type.clone().filter(|media| of_format(media).is_some());
                named.map(|media_type| ImageSource { media_type, path: image.uri.clone() })
            }
        };
        match found {
            Some(source) => ContentPart::Image { source },
            None => {
                let media = image.media_type.as_deref().unwrap_or("of an unknown format");
                ContentPart::Text { text: format!("[an image, {media}]") }
            }
        }
    }
}
