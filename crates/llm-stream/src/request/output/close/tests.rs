//! What can be closed, and what cannot.

use super::*;

#[test]
fn what_can_be_closed_is_closed_at_every_depth() {
    let schema = json!({
        "$schema": "x", "title": "T", "type": "object",
        "properties": {
            "n": { "type": "integer", "format": "uint8", "minimum": 0, "maximum": 255, "description": "How many." },
            "maybe": { "type": ["string", "null"], "default": null, "format": "date" },
            "kind": { "oneOf": [
                { "const": "a", "description": "First." },
                { "type": "object", "properties": { "b": { "type": "boolean" } }, "additionalProperties": false },
            ] },
            "list": { "type": "array", "items": { "type": "number", "format": "double" } },
        },
        "required": ["n"],
    });
    let expected = json!({
        "title": "T", "type": "object", "additionalProperties": false,
        "properties": {
            "n": { "type": "integer", "description": "How many. (maximum: 255, minimum: 0)" },
            "maybe": { "type": ["string", "null"], "description": "(format: \"date\")" },
            "kind": { "anyOf": [
                { "enum": ["a"], "description": "First." },
                { "type": "object", "properties": { "b": { "type": "boolean" } }, "required": ["b"],
                    "additionalProperties": false },
            ] },
            "list": { "type": "array", "items": { "type": "number" } },
        },
        "required": ["kind", "list", "maybe", "n"],
    });
    assert_eq!(close(&schema), Some(expected));
}

#[test]
fn what_has_no_closed_form_stays_open() {
    let in_object = |inner: Value| json!({ "type": "object", "properties": { "x": inner } });
    for inner in [
        json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        json!({ "type": "object" }),
        json!({ "type": "array" }),
        json!({ "type": "array", "items": true }),
        json!({ "type": "array", "prefixItems": [{ "type": "string" }] }),
        json!(true),
        json!({ "$ref": "#/$defs/T" }),
        json!({ "description": "anything" }),
        json!({ "allOf": [{ "type": "string" }] }),
        // Closed, one half would forbid what the other demands.
        json!({ "type": "object", "properties": { "id": { "type": "string" } },
            "oneOf": [{ "type": "object", "properties": { "a": { "type": "null" } } }] }),
        json!({ "oneOf": [{ "type": "string" }], "anyOf": [{ "const": "a" }] }),
    ] {
        assert_eq!(close(&in_object(inner.clone())), None, "{inner}");
    }
    assert_eq!(close(&json!({ "type": "string" })), None, "the root is an object");
    assert_eq!(
        close(
            &json!({ "type": "object", "anyOf": [{ "type": "object", "properties": { "a": { "type": "null" } } }],
        "properties": { "a": { "type": "null" } } })
        ),
        None,
        "without alternatives"
    );
}

#[test]
fn formats_of_numbers_are_known() {
    let of_rust = ["uint8", "int64", "uint", "int", "float", "double"];
    assert!(of_rust.iter().all(|format| is_of_rust(format)));
    assert!(["date", "integer", "uuid", "8"].iter().all(|format| !is_of_rust(format)));
}
