//! Scripts: what a model says, apart from how a server writes it.

use serde_json::{Map, Value, json};
use turnwright_llm_stream::{Assembler, FinishReason, StreamItem};

use super::{
    decode::{Format, check},
    dice::Dice,
    encode::{self, frame},
};

/// What a model says.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) blocks: Vec<Block>,
    pub(crate) cut: bool,
    /// Tokens in and out.
    pub(crate) usage: Option<(u64, u64)>,
}

#[derive(Debug)]
pub(crate) enum Block {
    Text {
        pieces: Vec<String>,
        /// What the server wants back with it, where the format has such a thing beside text and calls.
        mark: Option<String>,
    },
    Thought {
        /// None where nobody can read them.
        pieces: Vec<String>,
        /// What the server wants back with it.
        signature: Option<String>,
    },
    Call {
        id: String,
        name: String,
        mark: Option<String>,
        arguments: Map<String, Value>,
        /// The arguments as the server writes them.
        pieces: Vec<String>,
    },
}

/// What came of it: texts, thoughts (`t`, `r`) and calls (`c`), those of one kind joined where they touch.
#[derive(Debug, Default, PartialEq)]
struct Said(Vec<(char, Value)>);

/// A script means the same in whatever format a server writes it, however it frames it, and wherever it is cut.
pub(crate) fn any_format(input: &[u8]) {
    let mut dice = Dice::new(input);
    let format = dice.one_of(&Format::ALL);
    let script = Script::roll(&mut dice);
    let events = encode::events(format, &script, &mut dice);
    let plain = check(format, &frame::plainly(format, &events));
    let framed = check(format, &frame::anyhow(format, &events, &mut dice));
    assert_eq!(framed, plain, "{format:?}: the framing says nothing");
    let unlike = check(format, &frame::plainly(format, &frame::unlike(&events)));
    assert_eq!(unlike, plain, "{format:?}: what is alike says the same as what is parsed");
    script.check(format, &plain);
}

impl Script {
    fn roll(dice: &mut Dice<'_>) -> Self {
        let blocks = (0..dice.below(6)).map(|at| Block::roll(at, dice)).collect();
        let usage = dice.maybe().then(|| (1 + u64::from(dice.byte()), 1 + u64::from(dice.byte())));
        Self { blocks, cut: dice.below(4) == 1, usage }
    }

    /// What the items must come to.
    fn check(&self, format: Format, items: &[StreamItem]) {
        let mut assembler = Assembler::new();
        for item in items {
            if let StreamItem::Event(event) = item {
                assembler.feed(event);
            }
        }
        let response = assembler.finish();
        assert_eq!(response.error, None, "{format:?} {self:?}");
        let mut said = Said::default();
        for part in &response.parts {
            match part {
                turnwright_core::Part::Text { text } => said.say('t', text),
                turnwright_core::Part::Reasoning(block) => said.say('r', &block.text),
                turnwright_core::Part::ToolCall(call) => {
                    let arguments = call.arguments_value().expect("arguments that are JSON");
                    said.call(&call.name, &arguments);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(said, self.said(format), "{format:?}");
        let has_calls = self.blocks.iter().any(|block| matches!(block, Block::Call { .. }));
        let reason = match (self.cut, has_calls) {
            (true, _) => FinishReason::Length,
            (false, true) => FinishReason::ToolCalls,
            (false, false) => FinishReason::Stop,
        };
        assert_eq!(response.finish_reason, Some(reason), "{format:?}");
        assert_eq!(response.usage.input_tokens.zip(response.usage.output_tokens), self.usage, "{format:?}");
        self.check_kept(format, &response.parts);
    }

    /// Signatures are kept, each of them.
    fn check_kept(&self, format: Format, parts: &[turnwright_core::Part]) {
        let kept = serde_json::to_string(parts).expect("parts are JSON");
        for block in &self.blocks {
            let signature = match block {
                Block::Thought { signature, .. } if format != Format::Ollama => signature,
                Block::Text { mark, .. } | Block::Call { mark, .. } if format == Format::Gemini => mark,
                _ => continue,
            };
            if let Some(signature) = signature {
                assert!(kept.contains(signature.as_str()), "{format:?}: {signature} in {kept}");
            }
        }
    }

    fn said(&self, format: Format) -> Said {
        let mut said = Said::default();
        // Chat completions have no order between text and calls, and calls are told at the end.
        let (calls, others): (Vec<&Block>, Vec<&Block>) =
            self.blocks.iter().partition(|block| format == Format::Chat && block.is_call());
        for block in others.into_iter().chain(calls) {
            match block {
                Block::Text { pieces, .. } => said.say('t', &pieces.concat()),
                Block::Thought { pieces, .. } => said.say('r', &pieces.concat()),
                Block::Call { name, arguments, .. } => said.call(name, &arguments.clone().into()),
            }
        }
        said
    }
}

impl Block {
    fn roll(at: usize, dice: &mut Dice<'_>) -> Self {
        let pieces = |dice: &mut Dice<'_>| (0..=dice.below(3)).map(|_| text(dice)).collect();
        let mark = |dice: &mut Dice<'_>| dice.maybe().then(|| format!("signature-{at}"));
        match dice.below(7) {
            0..2 => Self::Text { pieces: pieces(dice), mark: mark(dice) },
            2..4 => Self::Thought { pieces: pieces(dice), signature: mark(dice) },
            4 => Self::Thought { pieces: Vec::new(), signature: Some(format!("signature-{at}")) },
            5 => Self::call(at, Map::from_iter([("input".to_owned(), text(dice).into())]), mark(dice), dice),
            _ => {
                let arguments = (0..dice.below(4)).map(|key| (format!("k{key}"), argument(dice))).collect();
                Self::call(at, arguments, mark(dice), dice)
            }
        }
    }

    fn call(at: usize, arguments: Map<String, Value>, mark: Option<String>, dice: &mut Dice<'_>) -> Self {
        let pieces = cut(&Value::from(arguments.clone()).to_string(), dice);
        Self::Call { id: format!("id-{at}"), name: format!("f{at}"), mark, arguments, pieces }
    }

    fn is_call(&self) -> bool {
        matches!(self, Self::Call { .. })
    }
}

impl Said {
    fn say(&mut self, kind: char, text: &str) {
        match self.0.last_mut() {
            _ if text.is_empty() => {}
            Some((last, Value::String(known))) if *last == kind => known.push_str(text),
            _ => self.0.push((kind, text.into())),
        }
    }

    fn call(&mut self, name: &str, arguments: &Value) {
        self.0.push(('c', json!([name, arguments])));
    }
}

/// Texts that look like something else, in pieces that are never empty.
fn text(dice: &mut Dice<'_>) -> String {
    let words = [
        "a",
        "é",
        "😀",
        "\"",
        "\\",
        "\n",
        "\r\n",
        "{",
        "}]",
        "data: ",
        "\n\ndata: [DONE]\n\n",
        "<",
        "\u{2028}",
        "\u{feff}",
        "\t",
        "\u{0}",
        "\\u00e9",
        "null",
    ];
    (0..=dice.below(3)).map(|_| dice.one_of(&words)).collect()
}

fn argument(dice: &mut Dice<'_>) -> Value {
    match dice.below(5) {
        0 => text(dice).into(),
        1 => dice.byte().into(),
        2 => dice.maybe().into(),
        3 => Value::Null,
        _ => (0..=dice.below(2)).map(|_| Value::from(text(dice))).collect(),
    }
}

/// The text in up to five pieces, some of which may be empty.
fn cut(whole: &str, dice: &mut Dice<'_>) -> Vec<String> {
    let (mut pieces, mut rest) = (Vec::new(), whole);
    for _ in 0..dice.below(5) {
        let mut at = dice.below(rest.len() + 1);
        while !rest.is_char_boundary(at) {
            at -= 1;
        }
        let (piece, after) = rest.split_at(at);
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces.push(rest.to_owned());
    pieces
}
