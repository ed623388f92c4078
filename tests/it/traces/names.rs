//! The names that are written are those of the document, and of the published crate where both have one.

use std::collections::BTreeSet;

use opentelemetry_semantic_conventions::attribute as published;
use turnwright_trace_spans::names;

#[test]
fn the_document_has_the_names_that_are_written() {
    let page = include_str!("../../../docs/traces.md");
    let (_, table) = page.split_once("## Attributes").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    let told = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let told: BTreeSet<&str> = told.collect();
    let written: BTreeSet<&str> = names::ATTRIBUTES.iter().copied().collect();
    assert_eq!(told, written);
    assert_eq!(written.len(), names::ATTRIBUTES.len(), "no name is there twice");
    assert!(page.contains(names::VERSION));
    for event in [names::EVENT_SUSPENDED, names::EVENT_AGENT_START] {
        assert!(page.contains(&format!("`{event}`")), "{event}");
    }
}

#[test]
#[expect(
    deprecated,
    reason = "the crate calls all of them deprecated, since they moved to a registry of their own"
)]
fn names_that_the_published_crate_has_are_the_same() {
    let pairs = [
        (names::OPERATION, published::GEN_AI_OPERATION_NAME),
        (names::PROVIDER, published::GEN_AI_PROVIDER_NAME),
        (names::AGENT, published::GEN_AI_AGENT_NAME),
        (names::CONVERSATION, published::GEN_AI_CONVERSATION_ID),
        (names::REQUEST_MODEL, published::GEN_AI_REQUEST_MODEL),
        (names::REQUEST_MAX_TOKENS, published::GEN_AI_REQUEST_MAX_TOKENS),
        (names::REQUEST_TEMPERATURE, published::GEN_AI_REQUEST_TEMPERATURE),
        (names::REQUEST_TOP_P, published::GEN_AI_REQUEST_TOP_P),
        (names::REQUEST_STOP, published::GEN_AI_REQUEST_STOP_SEQUENCES),
        (names::OUTPUT_TYPE, published::GEN_AI_OUTPUT_TYPE),
        (names::RESPONSE_ID, published::GEN_AI_RESPONSE_ID),
        (names::RESPONSE_MODEL, published::GEN_AI_RESPONSE_MODEL),
        (names::FINISH_REASONS, published::GEN_AI_RESPONSE_FINISH_REASONS),
        (names::INPUT_TOKENS, published::GEN_AI_USAGE_INPUT_TOKENS),
        (names::OUTPUT_TOKENS, published::GEN_AI_USAGE_OUTPUT_TOKENS),
        (names::CACHE_READ, published::GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS),
        (names::CACHE_CREATION, published::GEN_AI_USAGE_CACHE_CREATION_INPUT_TOKENS),
        (names::TOOL, published::GEN_AI_TOOL_NAME),
        (names::TOOL_TYPE, published::GEN_AI_TOOL_TYPE),
        (names::TOOL_CALL, published::GEN_AI_TOOL_CALL_ID),
        (names::TOOL_ARGUMENTS, published::GEN_AI_TOOL_CALL_ARGUMENTS),
        (names::TOOL_RESULT, published::GEN_AI_TOOL_CALL_RESULT),
        (names::SYSTEM_INSTRUCTIONS, published::GEN_AI_SYSTEM_INSTRUCTIONS),
        (names::INPUT_MESSAGES, published::GEN_AI_INPUT_MESSAGES),
        (names::OUTPUT_MESSAGES, published::GEN_AI_OUTPUT_MESSAGES),
        (names::TOOL_DEFINITIONS, published::GEN_AI_TOOL_DEFINITIONS),
        (names::ERROR_TYPE, published::ERROR_TYPE),
        (names::SESSION, published::SESSION_ID),
        (names::USER, published::USER_ID),
    ];
    for (ours, theirs) in pairs {
        assert_eq!(ours, theirs);
    }
}
