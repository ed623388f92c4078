//! Bodies: recorded ones, and ones made in the shape that a provider's own have.

use std::path::Path;

use crate::chat;

/// Words of an answer, some of which hold characters that JSON escapes.
const WORDS: [&str; 10] =
    [" the", " quick", " brown", "\\n\\n", " fox", " \\\"jumps\\\"", " over", " 12", " dogs", "."];

fn words(count: usize) -> impl Iterator<Item = &'static str> {
    WORDS.into_iter().cycle().take(count)
}

/// One of our own recordings.
pub(super) fn recorded(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings/smollm2");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// A long answer of chat completions.
pub(super) fn text() -> String {
    let chunks = words(2_000).map(|word| chat::delta(&format!(r#"{{"content":"{word}"}}"#)));
    chunks.chain([chat::finish("stop"), chat::END.into()]).collect()
}

/// One call of chat completions whose arguments come in many fragments.
pub(super) fn arguments() -> String {
    chat_call(std::iter::repeat_n(" words", 2_000))
}

pub(super) fn chat_fragments(length: usize) -> String {
    chat_call(eights(length))
}

fn chat_call(fragments: impl Iterator<Item = &'static str>) -> String {
    let fragments = quoted(fragments).map(|fragment| chat::fragment(0, fragment));
    let end = [chat::finish("tool_calls"), chat::END.into()];
    std::iter::once(chat::call(0, "call_1", "write")).chain(fragments).chain(end).collect()
}

pub(super) fn responses_fragments(length: usize) -> String {
    let event = |kind: &str, rest: &str| {
        format!("event: response.{kind}\ndata: {{\"type\":\"response.{kind}\",{rest}}}\n\n")
    };
    let item = "fc_685c42cc1b3481908a2b3f0c3f7a8a2f0f2b4f1b2c3d4e5f";
    let begin = event(
        "output_item.added",
        &format!(
            r#""output_index":0,"item":{{"id":"{item}","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"write"}}"#
        ),
    );
    let fragments = quoted(eights(length)).enumerate().map(|(at, fragment)| {
        event(
            "function_call_arguments.delta",
            &format!(
                r#""sequence_number":{at},"item_id":"{item}","output_index":0,"delta":"{fragment}","obfuscation":"aB3dE5""#
            ),
        )
    });
    let end = event("completed", r#""response":{"id":"resp_1","status":"completed","output":[]}"#);
    std::iter::once(begin).chain(fragments).chain([end]).collect()
}

pub(super) fn messages_fragments(length: usize) -> String {
    let event = |kind: &str, rest: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\",{rest}}}\n\n");
    let begin = event(
        "content_block_start",
        r#""index":0,"content_block":{"type":"tool_use","id":"toolu_01","name":"write","input":{}}"#,
    );
    let fragments = quoted(eights(length)).map(|fragment| {
        event(
            "content_block_delta",
            &format!(r#""index":0,"delta":{{"type":"input_json_delta","partial_json":"{fragment}"}}"#),
        )
    });
    let end = [
        event("content_block_stop", r#""index":0"#),
        event("message_delta", r#""delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}"#),
        event("message_stop", r#""x":0"#),
    ];
    std::iter::once(begin).chain(fragments).chain(end).collect()
}

/// Fragments of eight bytes that are this long together.
fn eights(length: usize) -> impl Iterator<Item = &'static str> {
    std::iter::repeat_n("8 bytes.", length / 8)
}

/// The fragments as the one text of an object.
fn quoted(fragments: impl Iterator<Item = &'static str>) -> impl Iterator<Item = &'static str> {
    std::iter::once("{\\\"text\\\":\\\"").chain(fragments).chain(["\\\"}"])
}

/// An answer of Gemini's, which sends a few words a chunk, and the usage so far with each.
pub(super) fn gemini() -> String {
    let chunk = |at: usize, text: &str, reason: &str| {
        format!(
            "data: {{\"candidates\": [{{\"content\": {{\"parts\": [{{\"text\": \"{text}\"}}],\"role\": \"model\"}}{reason},\
             \"index\": 0}}],\"usageMetadata\": {{\"promptTokenCount\": 12,\"candidatesTokenCount\": {at},\
             \"totalTokenCount\": {total},\"promptTokensDetails\": [{{\"modality\": \"TEXT\",\"tokenCount\": 12}}]}},\
             \"modelVersion\": \"gemini-2.5-flash\",\"responseId\": \"q8pcaLm5Boe7_uMPnsqN-Ac\"}}\r\n\r\n",
            total = at + 12
        )
    };
    let words: Vec<&str> = words(2_000).collect();
    let texts = words.chunks(8).enumerate().map(|(at, words)| chunk(at * 8, &words.concat(), ""));
    texts.chain([chunk(2_000, ".", ",\"finishReason\": \"STOP\"")]).collect()
}

/// An answer of Ollama's.
pub(super) fn ollama() -> String {
    let line = |word: &str| {
        format!(
            "{{\"model\":\"llama3.2\",\"created_at\":\"2026-06-01T12:00:00.123456789Z\",\
             \"message\":{{\"role\":\"assistant\",\"content\":\"{word}\"}},\"done\":false}}\n"
        )
    };
    let end = "{\"model\":\"llama3.2\",\"created_at\":\"2026-06-01T12:00:01.123456789Z\",\"message\":{\"role\":\"assistant\",\"content\":\"\"},\
        \"done_reason\":\"stop\",\"done\":true,\"total_duration\":4883583458,\"load_duration\":1334875,\
        \"prompt_eval_count\":26,\"prompt_eval_duration\":342546000,\"eval_count\":282,\"eval_duration\":4535599000}\n";
    words(2_000).map(line).chain([end.to_owned()]).collect()
}
