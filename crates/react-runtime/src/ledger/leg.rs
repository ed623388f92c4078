//! The state behind the ledger's lock.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
};

use turnwright_core::{
    AgentResult, ApprovalTransaction, CallId, CommandId, HistoryError, HistorySnapshot, Interrupted, Message,
    MessageId, Origin, Part, Role, Sources, Timestamp, TokenUsage, ToolResult,
};
use turnwright_hook::HookPoint;
use turnwright_llm_stream::{Assembler, LlmResponse};

use crate::{
    event::TurnEventKind,
    machine::{Fed, MachineError, Step, TurnMachine},
    queue::EventQueue,
    record::RecordKind,
    snapshot::Batch,
};

use super::{
    records::{Records, RecordsOf},
    unsaved::Unsaved,
};

/// What a leg starts with.
pub(crate) struct LegParts {
    pub(crate) machine: TurnMachine,
    pub(crate) messages: Vec<Arc<Message>>,
    pub(crate) turn_start: usize,
    pub(crate) batch: Option<Batch>,
    pub(crate) deferred: Vec<Message>,
    pub(crate) usage: TokenUsage,
    pub(crate) transaction: Option<ApprovalTransaction>,
}

pub(crate) struct Leg {
    pub(crate) machine: TurnMachine,
    pub(crate) batch: Option<Batch>,
    pub(crate) transaction: Option<ApprovalTransaction>,
    pub(crate) result: Option<AgentResult>,
    /// Commands that the end of the turn left without effect, and those that still wait.
    pub(crate) returned: Vec<CommandId>,
    pub(crate) queued: Vec<CommandId>,
    pub(super) messages: Vec<Arc<Message>>,
    pub(super) revision: u64,
    pub(super) turn_start: usize,
    pub(super) call_ids: HashSet<CallId>,
    pub(super) deferred: Vec<Message>,
    /// The answer that is arriving, or has arrived and is not history yet: layers may still hold it.
    pub(super) stream: Option<Streaming>,
    /// What was streamed of the last answer, where a layer changed it afterwards.
    pub(super) streamed: Option<String>,
    /// The answer AFTER_LLM_RESPONSE is owed.
    pub(super) response: Option<Arc<LlmResponse>>,
    /// The results AFTER_TOOL_EXECUTION is owed.
    pub(super) results: Arc<[ToolResult]>,
    pub(super) cursor: Option<(HookPoint, usize)>,
    pub(super) usage: TokenUsage,
    /// What no budget was charged for yet; none without a budget.
    pub(super) uncharged: Option<Vec<TokenUsage>>,
    /// Whether a model call was added to `usage`: the first one is not a sum.
    pub(super) counted: bool,
    /// Nothing is appended any more.
    pub(super) closed: bool,
    pub(super) over: bool,
    /// The user was told what the turn's end has to say.
    pub(super) told: bool,
    pub(super) queue: Arc<EventQueue>,
    /// What is shown and not stored; none without a store.
    pub(super) unsaved: Option<Unsaved>,
    pub(super) records: Records,
    /// When the commit under way began.
    pub(super) now: Timestamp,
    /// Ids for the messages of the commits to come.
    pub(super) ids: VecDeque<MessageId>,
    pub(super) sources: Sources,
}

pub(super) struct Streaming {
    pub(super) assembler: Assembler,
    /// Whether deltas are withheld until the chain returns.
    pub(super) gated: bool,
    pub(super) shown: String,
    /// Whether reasoning was shown.
    pub(super) shown_reasoning: bool,
    /// Names of the calls that began to arrive.
    pub(super) calls: Vec<String>,
    /// The provider's ids of the calls that began to arrive, and the ids they will have: unique in the conversation.
    pub(super) ids: Vec<(CallId, CallId)>,
    pub(super) ended: bool,
}

impl Streaming {
    /// It had shown something, and it failed or was never read to its end: no answer comes of it.
    pub(super) fn is_abandoned(&self) -> bool {
        (self.assembler.has_failed() || !self.ended) && self.has_shown()
    }

    /// Whether anybody saw something of it.
    pub(super) fn has_shown(&self) -> bool {
        self.shown_reasoning || !self.shown.is_empty()
    }
}

impl Leg {
    /// Messages a commit may add beside the results of its batch and the words that wait.
    pub(super) const SPARE_IDS: usize = 4;

    pub(crate) fn new(parts: LegParts, whose: RecordsOf, queue: Arc<EventQueue>, sources: Sources) -> Self {
        // Of the whole conversation, which is sent as one: servers refuse an id that comes twice.
        let call_ids = parts.messages.iter().flat_map(|m| m.tool_calls().map(|c| c.id.clone())).collect();
        Self {
            machine: parts.machine,
            batch: parts.batch,
            transaction: parts.transaction,
            result: None,
            returned: Vec::new(),
            queued: Vec::new(),
            messages: parts.messages,
            revision: 0,
            turn_start: parts.turn_start,
            call_ids,
            deferred: parts.deferred,
            stream: None,
            streamed: None,
            response: None,
            results: Arc::new([]),
            cursor: None,
            counted: parts.usage != TokenUsage::UNKNOWN,
            usage: parts.usage,
            uncharged: None,
            closed: false,
            over: false,
            told: false,
            queue,
            unsaved: None,
            records: Records::of(whose),
            now: Timestamp::UNIX_EPOCH,
            ids: VecDeque::new(),
            sources,
        }
    }

    pub(crate) fn emit(&mut self, kind: TurnEventKind) {
        // Of the end there is a record of its own.
        let is_told = kind.is_recorded() && !matches!(kind, TurnEventKind::TurnFinished(_));
        let told = (is_told && self.records.is_heard())
            .then(|| self.records.make(self.now, RecordKind::Event(kind.clone())));
        match (&mut self.unsaved, told) {
            (Some(unsaved), told) => unsaved.note(self.now, &kind, told),
            (None, Some(told)) => self.records.ready(told, false),
            (None, None) => {}
        }
        self.queue.push(self.now, kind);
    }

    /// A commit begins at this time, with these ids beside those that are left.
    pub(super) fn prepare(&mut self, now: Timestamp, ids: Vec<MessageId>) {
        self.now = now;
        self.ids.extend(ids);
    }

    /// How many ids are missing for what the next commit may add.
    pub(super) fn ids_wanted(&self) -> usize {
        let open = self.batch.as_ref().map_or(0, |b| b.calls.len());
        (Self::SPARE_IDS + open).saturating_sub(self.ids.len())
    }

    pub(super) fn id(&mut self) -> MessageId {
        // Enough were drawn before the lock; should that ever be wrong, one is drawn under it.
        self.ids.pop_front().unwrap_or_else(|| self.sources.id())
    }

    // ---- history

    pub(crate) fn history(&self) -> HistorySnapshot {
        HistorySnapshot { messages: self.messages.clone(), revision: self.revision }
    }

    pub(crate) fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn turn_start(&self) -> usize {
        self.turn_start
    }

    pub(crate) fn deferred(&self) -> &[Message] {
        &self.deferred
    }

    pub(crate) fn usage(&self) -> TokenUsage {
        self.usage
    }

    /// Takes words from outside the loop. While an answer arrives or its calls are open they wait: the history stays
    /// legal, and nobody is answered before they spoke.
    pub(crate) fn append(&mut self, message: Message) -> Result<u64, HistoryError> {
        if self.closed {
            return Err(HistoryError::Sealed);
        }
        if self.batch.is_some() || self.stream.is_some() {
            self.deferred.push(message);
        } else {
            self.push(message);
        }
        Ok(self.revision)
    }

    /// A summary takes the place of what it stands for, if the history is as its author saw it.
    pub(super) fn collapse(&mut self, summary: Message, revision: u64) -> Result<u64, HistoryError> {
        if self.closed {
            return Err(HistoryError::Sealed);
        }
        if self.batch.is_some() || self.stream.is_some() {
            return Err(HistoryError::Open);
        }
        if self.revision != revision {
            return Err(HistoryError::Changed { expected: revision, found: self.revision });
        }
        self.push(summary);
        Ok(self.revision)
    }

    pub(super) fn push(&mut self, message: Message) {
        let message = Arc::new(message);
        self.messages.push(message.clone());
        self.revision += 1;
        self.record(|| RecordKind::Message(message));
    }

    /// Usage of model calls that were made beside the loop. Says whether the turn still counts.
    pub(crate) fn count_extra(&mut self, usage: TokenUsage, purpose: &str) -> bool {
        if !self.closed {
            self.count(usage, Some(purpose));
        }
        !self.closed
    }

    pub(super) fn push_parts(&mut self, parts: Vec<Part>, interrupted: Option<Interrupted>) {
        let id = self.id();
        let mut message = Message::new(id, Role::Assistant, parts);
        message.interrupted = interrupted;
        self.push(message);
    }

    pub(super) fn flush_deferred(&mut self) {
        for message in std::mem::take(&mut self.deferred) {
            self.push(message);
        }
    }

    /// Commits messages that came through the control channel.
    pub(crate) fn land(&mut self, parts: Vec<Part>, origin: Origin, key: Option<String>) {
        let id = self.id();
        let mut message = Message::new(id, Role::User, parts).origin(origin);
        message.key = key;
        self.push(message);
    }

    // ---- hooks

    pub(crate) fn hook_to_resume(&mut self, point: HookPoint) -> usize {
        match self.cursor {
            Some((p, next)) if p == point => next,
            _ => {
                self.cursor = Some((point, 0));
                0
            }
        }
    }

    pub(crate) fn hook_begun(&mut self, point: HookPoint, index: usize) {
        // A point is begun when its first hook is polled: from here on its after is owed.
        self.machine.begin();
        self.cursor = Some((point, index + 1));
    }

    // ---- the machine

    pub(crate) fn next(&self) -> Step {
        self.machine.next()
    }

    pub(crate) fn feed(&mut self, fed: Fed) -> Result<(), MachineError> {
        self.cursor = None;
        self.machine.feed(fed)
    }
}
