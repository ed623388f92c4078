//! A history as the turns that the format wants: user and assistant in alternation, every call answered in the next turn.

use std::{borrow::Cow, sync::Arc};

use serde::{Serialize, Serializer, ser::SerializeStruct};
use turnwright_core::{CallId, Message, Part, Role, ToolResult};

use super::{
    super::reasoning::block_of,
    block::{Block, stray_result},
    cache::{CacheMark, Marked},
    names::Ids,
};
use crate::{
    LlmRequest,
    wire::history::{interrupted_response, text_of},
};

/// What stands before an answer that begins the history.
const BEGIN: &str = "[What was said before is left out.]";
/// What stands for a turn of blank words.
const BLANK: &str = "[An empty message.]";

/// The system prompt and the turns.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    pub(super) system: Cow<'a, str>,
    pub(super) turns: Vec<Turn<'a>>,
}

#[derive(Debug)]
pub(super) struct Turn<'a> {
    is_assistant: bool,
    /// Come first.
    results: Vec<Block<'a>>,
    blocks: Vec<Block<'a>>,
}

impl<'a> Conversation<'a> {
    pub(super) fn of(request: &'a LlmRequest) -> Self {
        let leading = request.messages.iter().take_while(|message| message.role == Role::System).count();
        let (leading, messages) = request.messages.split_at(leading);
        let given = request.system.as_deref().filter(|system| !system.trim().is_empty());
        let mut system = Cow::Borrowed(given.unwrap_or_default());
        for words in leading.iter().map(|message| text_of(message)).filter(|words| !words.trim().is_empty()) {
            if system.is_empty() {
                system = words;
            } else {
                system.to_mut().push_str("\n\n");
                system.to_mut().push_str(&words);
            }
        }
        let mut builder = Builder { turns: Vec::new(), open: Vec::new(), ids: Ids::of(messages) };
        messages.iter().for_each(|message| builder.message(message));
        Self { system, turns: builder.finish() }
    }
}

struct Builder<'a> {
    turns: Vec<Turn<'a>>,
    /// Calls of the last answer that have no result yet.
    open: Vec<&'a CallId>,
    ids: Ids<'a>,
}

impl<'a> Builder<'a> {
    fn message(&mut self, message: &'a Arc<Message>) {
        if message.role == Role::Assistant {
            return self.answer(message);
        }
        for result in message.tool_results() {
            self.result(result);
        }
        match message.role {
            Role::System => {
                let words = text_of(message);
                if !words.trim().is_empty() {
                    let words = format!("<system_message>{words}</system_message>");
                    self.user().blocks.extend(Block::text(words));
                }
            }
            Role::User => {
                let blocks = message.parts.iter().filter_map(|part| match part {
                    Part::Text { text } => Block::text(text.as_str()),
                    Part::Image(image) => Some(Block::image(image)),
                    _ => None,
                });
                self.user().blocks.extend(blocks);
            }
            Role::Tool | Role::Assistant => {}
        }
    }

    fn result(&mut self, result: &'a ToolResult) {
        match self.open.iter().position(|call| *call == result.call_id()) {
            Some(at) => {
                self.open.remove(at);
                let block = Block::result(result, &self.ids);
                self.user().results.push(block);
            }
            None => {
                self.user().blocks.extend(Block::text(stray_result(result)));
                self.user().blocks.extend(result.images.iter().map(Block::image));
            }
        }
    }

    /// Takes an answer, in the order in which it came: thoughts belong to what follows them.
    fn answer(&mut self, message: &'a Message) {
        let mut marked_up =
            message.interrupted.as_ref().map(|mark| interrupted_response(&text_of(message), mark));
        let mut blocks = Vec::new();
        for part in &message.parts {
            match part {
                Part::Reasoning(reasoning) => blocks.extend(block_of(reasoning).map(Block::Kept)),
                // All of the text of an interrupted answer goes where its first text stands.
                Part::Text { .. } if message.interrupted.is_some() => {
                    blocks.extend(marked_up.take().and_then(Block::text));
                }
                Part::Text { text } => blocks.extend(Block::text(text.as_str())),
                Part::ToolCall(call) => blocks.push(Block::call(call, &self.ids)),
                _ => {}
            }
        }
        blocks.extend(marked_up.and_then(Block::text));
        // Servers refuse thoughts that nothing follows.
        while blocks.pop_if(|block| matches!(block, Block::Kept(_))).is_some() {}
        if blocks.is_empty() {
            return;
        }
        match self.turns.last_mut() {
            Some(turn) if turn.is_assistant => turn.blocks.extend(blocks),
            _ => {
                self.answer_open();
                if self.turns.is_empty() {
                    self.user().blocks.extend(Block::text(BEGIN));
                }
                self.turns.push(Turn { is_assistant: true, results: Vec::new(), blocks });
            }
        }
        self.open.extend(message.tool_calls().map(|call| &call.id));
    }

    /// The user's turn that is open; a new one after an answer.
    fn user(&mut self) -> &mut Turn<'a> {
        if self.turns.last().is_none_or(|turn| turn.is_assistant) {
            self.turns.push(Turn { is_assistant: false, results: Vec::new(), blocks: Vec::new() });
        }
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    /// Gives the calls that are still open a result.
    fn answer_open(&mut self) {
        for call in std::mem::take(&mut self.open) {
            let block = Block::no_result(call, &self.ids);
            self.user().results.push(block);
        }
    }

    fn finish(mut self) -> Vec<Turn<'a>> {
        self.answer_open();
        for turn in &mut self.turns {
            if turn.results.is_empty() && turn.blocks.is_empty() {
                turn.blocks.extend(Block::text(BLANK));
            }
        }
        self.turns
    }
}

impl<'a> Turn<'a> {
    /// As it is sent, with a mark on its last block if there is one.
    pub(super) fn marked(&'a self, mark: Option<CacheMark>) -> impl Serialize {
        MarkedTurn(self, mark)
    }
}

struct MarkedTurn<'a>(&'a Turn<'a>, Option<CacheMark>);

impl Serialize for MarkedTurn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(Turn { is_assistant, results, blocks }, mark) = self;
        let mut turn = serializer.serialize_struct("Turn", 2)?;
        turn.serialize_field("role", if *is_assistant { "assistant" } else { "user" })?;
        match (&**results, &**blocks, mark) {
            // Words alone go as a string, which every server takes.
            ([], [Block::Text { text }], None) => turn.serialize_field("content", text)?,
            (results, blocks, mark) => turn.serialize_field("content", &Blocks(results, blocks, *mark))?,
        }
        turn.end()
    }
}

struct Blocks<'a>(&'a [Block<'a>], &'a [Block<'a>], Option<CacheMark>);

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(results, blocks, mark) = self;
        let count = results.len() + blocks.len();
        let all = results.iter().chain(*blocks).enumerate();
        serializer.collect_seq(
            all.map(|(at, block)| Marked { block, cache_control: mark.filter(|_| at + 1 == count) }),
        )
    }
}
