//! The Ollama decoder.

use serde_json::Value;
use turnwright_core::TokenUsage;
use turnwright_llm_stream::{StreamItem, wire::ollama::OllamaDecoder};

use crate::{
    gemini::with_ids,
    support::{Recorded, assemble, check_calls, check_end, decode, recorded},
};

/// What an independent reader made of the body, in its words.
fn check(Recorded { name, body, expected }: &Recorded, items: &[StreamItem]) {
    let response = assemble(name, items);
    assert_eq!(response.text(), expected["text"].as_str().unwrap_or_default(), "{name}: text");
    assert_eq!(response.reasoning(), expected["reasoning"].as_str().unwrap_or_default(), "{name}: reasoning");
    // What is complete was so before the cut.
    check_calls(name, items, &response, &with_ids(expected, &response), false);
    // The other reader drops the ids.
    let text = String::from_utf8_lossy(body);
    for call in response.tool_calls().filter(|call| !call.id.as_str().starts_with("call_1")) {
        assert!(text.contains(&format!("\"id\":\"{}\"", call.id)), "{name}: {}", call.id);
    }
    check_end(name, &response, expected["done"] != true);
    assert_eq!(response.raw_finish_reason.as_deref(), expected["finish_reason"].as_str(), "{name}");
    let usage = |field: &str| expected["usage"][field].as_u64();
    let theirs = TokenUsage {
        input_tokens: usage("prompt_eval_count"),
        output_tokens: usage("eval_count"),
        ..TokenUsage::UNKNOWN
    };
    assert_eq!(TokenUsage { partial: false, ..response.usage }, theirs, "{name}: usage");
    if response.error.is_none() {
        assert_eq!(response.model.as_deref(), expected["model"].as_str(), "{name}: model");
    }
}

#[test]
fn every_recorded_stream_decodes_to_what_an_independent_reader_found() {
    let recorded = recorded("ollama");
    for stream in &recorded {
        check(stream, &decode(stream, || OllamaDecoder::new("p")));
    }
    assert!(recorded.is_empty() || recorded.len() >= 8, "{} files", recorded.len());
}

#[test]
fn a_recorded_stream_that_is_cut_anywhere_is_no_whole_answer() {
    for stream in recorded("ollama") {
        let whole = assemble(&stream.name, &decode(&stream, || OllamaDecoder::new("p")));
        let length = stream.body.trim_ascii_end().len();
        for cut in [0, 1, length / 3, length / 2, length - 1] {
            let name = format!("{} cut at {cut}", stream.name);
            let body = stream.body[..cut].to_vec();
            let cut = Recorded { name, body, expected: Value::Null };
            let response = assemble(&cut.name, &decode(&cut, || OllamaDecoder::new("p")));
            check_end(&cut.name, &response, true);
            assert!(whole.text().starts_with(&response.text()), "{}", cut.name);
            assert!(whole.reasoning().starts_with(&response.reasoning()), "{}", cut.name);
        }
    }
}
