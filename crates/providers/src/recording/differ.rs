//! Where two requests differ, in words that repeat nothing of a conversation.

use serde_json::Value;

/// The first difference: where it is and what kind it is. None when they are equal.
pub(crate) fn difference(recorded: &Value, asked: &Value) -> Option<String> {
    let mut path = String::new();
    walk(recorded, asked, &mut path).map(|what| match path.strip_prefix('.').unwrap_or(&path) {
        "" => what,
        path => format!("{path}: {what}"),
    })
}

fn walk(recorded: &Value, asked: &Value, path: &mut String) -> Option<String> {
    match (recorded, asked) {
        (Value::Object(theirs), Value::Object(ours)) => {
            let mut names: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
            names.sort();
            names.dedup();
            names.into_iter().find_map(|name| {
                let before = path.len();
                path.push('.');
                path.push_str(name);
                let found = match (theirs.get(name), ours.get(name)) {
                    (Some(theirs), Some(ours)) => walk(theirs, ours, path),
                    (Some(_), None) => Some("only the recorded request has it".into()),
                    (None, _) => Some("the recorded request does not have it".into()),
                };
                if found.is_none() {
                    path.truncate(before);
                }
                found
            })
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            let found = theirs.iter().zip(ours).enumerate().find_map(|(at, (theirs, ours))| {
                let before = path.len();
                path.push_str(&format!("[{at}]"));
                let found = walk(theirs, ours, path);
                if found.is_none() {
                    path.truncate(before);
                }
                found
            });
            let lengths = || format!("{} items were recorded, {} are asked", theirs.len(), ours.len());
            found.or_else(|| (theirs.len() != ours.len()).then(lengths))
        }
        (Value::String(theirs), Value::String(ours)) if theirs != ours => {
            let same = theirs.chars().zip(ours.chars()).take_while(|(a, b)| a == b).count();
            Some(format!(
                "the texts differ from character {} on, of {} recorded and {} asked",
                same + 1,
                theirs.chars().count(),
                ours.chars().count()
            ))
        }
        (theirs, ours) if theirs == ours => None,
        (theirs, ours) => Some(format!("{} was recorded, {} is asked", shown(theirs), shown(ours))),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(_) => "a text".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "an object".into(),
        scalar => scalar.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_place_is_named_and_the_words_are_not() {
        let recorded = json!({ "messages": [{ "content": "hush a" }, { "n": [1, 2] }], "t": 0.5 });
        for (pointer, value, expected) in [
            (
                "/messages/0/content",
                json!("hush bcd"),
                "messages[0].content: the texts differ from character 6 on, of 6 recorded and 8 asked",
            ),
            ("/messages/0/content", json!([]), "messages[0].content: a text was recorded, a list is asked"),
            ("/messages/1/n", json!([1]), "messages[1].n: 2 items were recorded, 1 are asked"),
            ("/messages/1", json!({}), "messages[1].n: only the recorded request has it"),
            (
                "/messages/1",
                json!({ "n": [1, 2], "o": 1 }),
                "messages[1].o: the recorded request does not have it",
            ),
            ("/t", json!(1), "t: 0.5 was recorded, 1 is asked"),
            ("", json!(null), "an object was recorded, null is asked"),
        ] {
            let mut asked = recorded.clone();
            *asked.pointer_mut(pointer).unwrap() = value;
            assert_eq!(difference(&recorded, &asked).as_deref(), Some(expected));
        }
        assert_eq!(difference(&recorded, &recorded.clone()), None);
    }
}
