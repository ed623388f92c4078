//! Settings: under which name each format sends them, and which it has no word for.

use std::sync::Arc;

use serde_json::{Value, json};
use turnwright_core::{Concurrency, Message, MessageId, Part, ToolCall, ToolDefinition, ToolResult};
use turnwright_llm_stream::{
    CacheHint, LlmRequest, OutputSchema, ToolChoice,
    wire::{
        chat::chat_output_way, gemini::gemini_output_way, messages::messages_output_way,
        ollama::ollama_output_way, responses::responses_output_way,
    },
};

use crate::Format::{self, *};

type Change = fn(&mut LlmRequest);

fn id() -> MessageId {
    MessageId::from_uuid(Default::default())
}

fn tool(name: &str) -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        name: name.into(),
        description: "does it".into(),
        parameters: json!({ "type": "object" }),
        source: "local".into(),
        concurrency: Concurrency::Exclusive,
        idempotent: false,
        timeout: None,
        idle_timeout: None,
        recovery: None,
    })
}

fn asks() -> LlmRequest {
    LlmRequest {
        model: "m".into(),
        system: Some("be brief".into()),
        messages: vec![Arc::new(Message::user(id(), "hi"))],
        tools: [tool("t"), tool("u")].into(),
        ..LlmRequest::default()
    }
}

/// What a change adds to a body: the fields that differ, as pointers.
fn added(format: Format, change: Change) -> Value {
    let mut request = asks();
    let before = format.body(&request);
    change(&mut request);
    let mut after = format.body(&request);
    for (name, value) in before.as_object().unwrap() {
        if after.get(name) == Some(value) {
            after.as_object_mut().unwrap().remove(name);
        }
    }
    after
}

#[test]
fn every_format_sends_every_setting_it_has_a_word_for() {
    let schema = json!({ "type": "object", "properties": {} });
    let named = |strict: bool| json!({ "name": "o", "schema": schema, "strict": strict });
    let with_type = |mut value: Value| {
        value["type"] = "json_schema".into();
        value
    };
    let form = |strict: bool| {
        let config = json!({ "responseMimeType": "application/json", "responseJsonSchema": schema });
        [
            (Chat, json!({ "response_format": { "type": "json_schema", "json_schema": named(strict) } })),
            (Responses, json!({ "text": { "format": with_type(named(strict)) } })),
            (Messages, json!({ "output_config": { "format": { "type": "json_schema", "schema": schema } } })),
            (Gemini, json!({ "generationConfig": config })),
            (Ollama, json!({ "format": schema })),
        ]
    };
    let nothing = || json!({});
    let one_call =
        |choice: &str| json!({ "tool_choice": { "type": choice, "disable_parallel_tool_use": true } });
    let output: [Change; 2] = [
        |r| r.output = Some(OutputSchema::new("o", json!({ "type": "object", "properties": {} })).into()),
        |r| {
            let mut output = OutputSchema::new("o", json!({ "type": "object", "properties": {} }));
            output.strict = true;
            r.output = Some(output.into());
        },
    ];
    let table: [(Change, [(Format, Value); 5]); 7] = [
        (
            |r| r.top_p = Some(0.5),
            [
                (Chat, json!({ "top_p": 0.5 })),
                (Responses, json!({ "top_p": 0.5 })),
                (Messages, json!({ "top_p": 0.5 })),
                (Gemini, json!({ "generationConfig": { "topP": 0.5 } })),
                (Ollama, json!({ "options": { "top_p": 0.5 } })),
            ],
        ),
        (
            |r| r.parallel_tool_calls = Some(false),
            [
                (Chat, json!({ "parallel_tool_calls": false })),
                (Responses, json!({ "parallel_tool_calls": false })),
                (Messages, one_call("auto")),
                (Gemini, nothing()),
                (Ollama, nothing()),
            ],
        ),
        (
            |r| r.parallel_tool_calls = Some(true),
            [
                (Chat, json!({ "parallel_tool_calls": true })),
                (Responses, json!({ "parallel_tool_calls": true })),
                (Messages, nothing()),
                (Gemini, nothing()),
                (Ollama, nothing()),
            ],
        ),
        (output[0], form(false)),
        (output[1], form(true)),
        (
            |r| r.stop = vec!["END".into()],
            [
                (Chat, json!({ "stop": ["END"] })),
                (Responses, json!({ "stop": ["END"] })),
                (Messages, json!({ "stop_sequences": ["END"] })),
                (Gemini, json!({ "generationConfig": { "stopSequences": ["END"] } })),
                (Ollama, json!({ "options": { "stop": ["END"] } })),
            ],
        ),
        (
            |r| (r.temperature, r.max_output_tokens) = (Some(0.5), Some(9)),
            [
                (Chat, json!({ "temperature": 0.5, "max_tokens": 9 })),
                (Responses, json!({ "temperature": 0.5, "max_output_tokens": 9 })),
                (Messages, json!({ "temperature": 0.5, "max_tokens": 9 })),
                (Gemini, json!({ "generationConfig": { "temperature": 0.5, "maxOutputTokens": 9 } })),
                (Ollama, json!({ "options": { "temperature": 0.5, "num_predict": 9 } })),
            ],
        ),
    ];
    for (row, (change, expected)) in table.into_iter().enumerate() {
        for (format, expected) in expected {
            assert_eq!(added(format, change), expected, "row {row}, {format:?}");
        }
    }
}

#[test]
fn one_call_at_most_goes_with_every_choice_that_allows_a_call() {
    let choice = |tool_choice: ToolChoice| {
        Messages.body(&LlmRequest { tool_choice, parallel_tool_calls: Some(false), ..asks() })["tool_choice"]
            .take()
    };
    assert_eq!(choice(ToolChoice::None), json!({ "type": "none" }));
    assert_eq!(choice(ToolChoice::Required), json!({ "type": "any", "disable_parallel_tool_use": true }));
    let named = json!({ "type": "tool", "name": "t", "disable_parallel_tool_use": true });
    assert_eq!(choice(ToolChoice::Tool("t".into())), named);
    for format in [Chat, Responses, Messages] {
        let request = LlmRequest { tools: [].into(), parallel_tool_calls: Some(false), ..asks() };
        let body = format.body(&request);
        assert_eq!((body.get("parallel_tool_calls"), body.get("tool_choice")), (None, None), "{format:?}");
    }
}

#[test]
fn extra_fields_join_the_object_they_share_with_a_setting_and_win_in_it() {
    let output = || Some(Arc::new(OutputSchema::new("o", json!({ "type": "object" }))));
    let with = |format: Format, name: &str, extra: Value| {
        let extra = [(name.to_owned(), extra)].into_iter().collect();
        format.body(&LlmRequest { output: output(), top_p: Some(0.5), extra, ..asks() })[name].take()
    };
    let text = with(Responses, "text", json!({ "verbosity": "low" }));
    assert_eq!((&text["verbosity"], &text["format"]["name"]), (&json!("low"), &json!("o")));
    let config = with(Messages, "output_config", json!({ "effort": "low" }));
    assert_eq!((&config["effort"], &config["format"]["type"]), (&json!("low"), &json!("json_schema")));
    let config = with(Gemini, "generationConfig", json!({ "topP": 0.1 }));
    assert_eq!((&config["topP"], &config["responseMimeType"]), (&json!(0.1), &json!("application/json")));
    assert_eq!(
        with(Ollama, "options", json!({ "top_p": 0.1, "seed": 1 })),
        json!({ "top_p": 0.1, "seed": 1 })
    );
    assert_eq!(with(Messages, "output_config", json!(null)), json!(null), "what is no object replaces all");
}

#[test]
fn a_cache_hint_marks_three_places_in_messages_and_nothing_elsewhere() {
    for format in [Chat, Responses, Gemini, Ollama] {
        assert_eq!(added(format, |r| r.cache = CacheHint::Hour), json!({}), "{format:?}");
    }
    let call = ToolCall::new("c", "t", "{\"a\":1}");
    let history = |last: Message| {
        let calls = Message::new(id(), turnwright_core::Role::Assistant, vec![Part::ToolCall(call.clone())]);
        vec![Arc::new(Message::user(id(), "hi")), Arc::new(calls), Arc::new(last)]
    };
    let result = || Message::tool(id(), ToolResult::ok(&call, "r"));
    for (hint, mark) in [
        (CacheHint::Minutes, json!({ "type": "ephemeral" })),
        (CacheHint::Hour, json!({ "type": "ephemeral", "ttl": "1h" })),
    ] {
        let request = LlmRequest { cache: hint, messages: history(result()), ..asks() };
        let body = Messages.body(&request);
        let system = json!([{ "type": "text", "text": "be brief", "cache_control": mark }]);
        assert_eq!(body["system"], system);
        assert_eq!(
            (&body["tools"][1]["cache_control"], body["tools"][0].get("cache_control")),
            (&mark, None)
        );
        let last =
            json!({ "type": "tool_result", "tool_use_id": "c", "content": "r", "cache_control": mark });
        assert_eq!(body["messages"][2]["content"], json!([last]));
        assert_eq!(
            body["messages"][1]["content"][0]["input"],
            json!({ "a": 1 }),
            "the others are as they were"
        );
        assert_eq!(body.to_string().matches("cache_control").count(), 3);
    }
    let alone = LlmRequest { system: None, tools: [].into(), cache: CacheHint::Minutes, ..asks() };
    let mark = json!({ "type": "ephemeral" });
    let words =
        json!([{ "role": "user", "content": [{ "type": "text", "text": "hi", "cache_control": mark }] }]);
    assert_eq!(Messages.body(&alone)["messages"], words);
    let nothing = LlmRequest { messages: vec![], cache: CacheHint::Minutes, ..alone };
    assert_eq!(Messages.body(&nothing)["messages"], json!([]));
}

#[test]
fn formats_that_cannot_hold_a_model_to_a_form_say_so() {
    use turnwright_llm_stream::OutputWay::{DemandedTool, Native, OfferedTool};
    let strict =
        Arc::new(OutputSchema { strict: true, ..OutputSchema::new("o", json!({ "type": "object" })) });
    let open = Arc::new(OutputSchema::new("o", json!({ "type": "object" })));
    let asks = |output: &Arc<OutputSchema>| LlmRequest { output: Some(output.clone()), ..asks() };
    let thinking = |kind: &str| {
        let extra = [("thinking".to_owned(), json!({ "type": kind }))].into_iter().collect();
        messages_output_way(&LlmRequest { extra, ..asks(&open) })
    };
    assert_eq!(
        [asks(&strict), asks(&open)].map(|request| messages_output_way(&request)),
        [Native, OfferedTool]
    );
    // A server refuses a demand where a model thinks, as the newest do unasked.
    assert_eq!(["adaptive", "disabled"].map(thinking), [OfferedTool, DemandedTool]);
    let by_tool = Arc::new(OutputSchema { by_tool: true, ..OutputSchema::clone(&strict) });
    let ways = |request: &LlmRequest| [chat_output_way(request), responses_output_way(request)];
    assert_eq!((ways(&asks(&strict)), ways(&asks(&by_tool))), ([Native; 2], [DemandedTool; 2]));
    assert_eq!(messages_output_way(&asks(&by_tool)), OfferedTool);
    let by_tool = LlmRequest { tools: [].into(), ..asks(&by_tool) };
    assert_eq!((gemini_output_way(&by_tool), ollama_output_way(&by_tool)), (DemandedTool, OfferedTool));
    let alone = || LlmRequest { tools: [].into(), ..asks(&open) };
    assert_eq!([alone(), asks(&strict)].map(|request| gemini_output_way(&request)), [Native, DemandedTool]);
    assert_eq!([alone(), asks(&strict)].map(|request| ollama_output_way(&request)), [Native, OfferedTool]);
}

#[test]
fn a_choice_that_demands_a_call_is_sent_or_refused_and_never_dropped() {
    for format in Format::ALL {
        for tool_choice in [ToolChoice::Required, ToolChoice::Tool("t".into())] {
            let request = LlmRequest { tool_choice, ..asks() };
            match format {
                Ollama => assert!(format.try_body(&request).is_err()),
                _ => assert_ne!(format.body(&request), format.body(&asks()), "{format:?}"),
            }
        }
    }
}
