//! What a request is known by.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use turnwright_llm_stream::classify::Secrets;

use super::mask::mask_value;

/// A digest of format, model and body.
pub(crate) type Digest = [u8; 32];

/// The body as it is kept: without secrets.
pub(crate) fn kept(body: &[u8], secrets: &Secrets) -> Value {
    let mut value = serde_json::from_slice(body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()));
    mask_value(secrets, &mut value);
    value
}

pub(crate) fn digest(format: &str, model: &str, body: &Value) -> Digest {
    let mut text = String::new();
    canonical(body, &mut text);
    let mut hash = Sha256::new();
    for part in [format, model, &text] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The one text of a value: fields in the order of their names, no white space.
pub(crate) fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            out.push('{');
            for name in names {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                canonical(&fields[name], out);
                out.push(',');
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_fields_is_nothing_and_all_else_is_something() {
        let of =
            |format, model, body: &str| digest(format, model, &kept(body.as_bytes(), &Secrets::default()));
        let one = of("f", "m", r#"{"a":[1,"x"],"b":{}}"#);
        assert_eq!(one, of("f", "m", r#"{ "b": {}, "a": [1, "x"] }"#));
        for (format, model, body) in [
            ("g", "m", r#"{"a":[1,"x"],"b":{}}"#),
            ("f", "n", r#"{"a":[1,"x"],"b":{}}"#),
            ("f", "m", r#"{"a":["x",1],"b":{}}"#),
            ("f", "m", r#"{"a":[1,"x"],"b":[]}"#),
            ("f", "m", r#"{"a":[1,"x"]}"#),
            ("f", "m", "no JSON"),
        ] {
            assert_ne!(one, of(format, model, body), "{format} {model} {body}");
        }
    }
}
