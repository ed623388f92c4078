//! The settings that the Converse format has a word for; the others send nothing.

use std::sync::Arc;

use serde_json::{Value, json};
use turnwright_core::{Message, MessageId};
use turnwright_llm_stream::{CacheHint, LlmRequest, OutputSchema, ToolChoice};

use crate::{Format::Converse, pairs::tool};

fn asks() -> LlmRequest {
    let hi = Message::user(MessageId::from_uuid(Default::default()), "hi");
    LlmRequest {
        model: "m".into(),
        system: Some("be brief".into()),
        messages: vec![Arc::new(hi)],
        tools: [tool()].into(),
        ..LlmRequest::default()
    }
}

#[test]
fn settings_stand_where_the_format_has_them() {
    let schema = json!({ "type": "object", "properties": {} });
    let output = OutputSchema::new("o", schema.clone());
    let form = json!({ "textFormat": { "type": "json_schema",
        "structure": { "jsonSchema": { "name": "o", "schema": schema.to_string() } } } });
    let nothing = Value::Null;
    for (request, field, expected) in [
        (
            LlmRequest { top_p: Some(0.5), temperature: Some(1.0), ..asks() },
            "inferenceConfig",
            json!({ "topP": 0.5, "temperature": 1.0 }),
        ),
        (
            LlmRequest { max_output_tokens: Some(9), stop: vec!["END".into()], ..asks() },
            "inferenceConfig",
            json!({ "maxTokens": 9, "stopSequences": ["END"] }),
        ),
        (LlmRequest { output: Some(output.into()), ..asks() }, "outputConfig", form),
        (LlmRequest { parallel_tool_calls: Some(false), ..asks() }, "toolChoice", nothing),
    ] {
        let mut body = Converse.body(&request);
        assert_eq!(body[field].take(), expected, "{field}");
        let rest = |mut body: Value| {
            body.as_object_mut().unwrap().retain(|name, value| name != field && !value.is_null());
            body
        };
        assert_eq!(rest(body), rest(Converse.body(&asks())), "{field} and nothing else");
    }
}

#[test]
fn extra_fields_join_the_objects_they_share_with_settings() {
    let extra = json!({ "outputConfig": { "effort": "low" }, "inferenceConfig": { "topP": 0.1 } });
    let Value::Object(extra) = extra else { panic!("no object") };
    let output = Some(Arc::new(OutputSchema::new("o", json!({}))));
    let body =
        Converse.body(&LlmRequest { output, top_p: Some(0.5), temperature: Some(1.0), extra, ..asks() });
    assert_eq!(body["inferenceConfig"], json!({ "topP": 0.1, "temperature": 1.0 }));
    assert_eq!(
        (&body["outputConfig"]["effort"], &body["outputConfig"]["textFormat"]["type"]),
        (&json!("low"), &json!("json_schema"))
    );
}

#[test]
fn a_cache_hint_marks_three_places() {
    for (cache, mark) in [
        (CacheHint::Minutes, json!({ "cachePoint": { "type": "default" } })),
        (CacheHint::Hour, json!({ "cachePoint": { "type": "default", "ttl": "1h" } })),
    ] {
        let body = Converse.body(&LlmRequest { cache, ..asks() });
        assert_eq!(body["system"], json!([{ "text": "be brief" }, mark]));
        assert_eq!(body["messages"], json!([{ "role": "user", "content": [{ "text": "hi" }, mark] }]));
        assert_eq!(
            (body["toolConfig"]["tools"].as_array().unwrap().len(), &body["toolConfig"]["tools"][1]),
            (2, &mark)
        );
        let alone = LlmRequest { system: None, tool_choice: ToolChoice::None, cache, ..asks() };
        assert_eq!(Converse.body(&alone).to_string().matches("cachePoint").count(), 1);
        let nothing = LlmRequest { messages: vec![], ..alone };
        assert_eq!(Converse.body(&nothing), json!({ "messages": [] }));
    }
}
