//! Schemas of types, and answers as models give them.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Plan {
    name: String,
    note: Option<String>,
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Step {
    Wait { seconds: u32 },
    Ask { whom: Whom },
    Stop,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Whom {
    Owner,
    /// Anybody else.
    Other(String),
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
enum Tree {
    Leaf(i64),
    Node(Vec<Tree>),
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Chain {
    next: Option<Box<Chain>>,
}

#[test]
fn objects_are_asked_for_as_they_are_and_closed() {
    let form = Form::of::<Plan>();
    let output = &form.output;
    assert_eq!((output.name.as_str(), output.strict, form.wrapper), ("Plan", true, None));
    let schema = &output.schema;
    assert_eq!(schema["required"], json!(["name", "note", "steps"]));
    assert_eq!(schema["additionalProperties"], json!(false));
    let kinds: Vec<_> = schema["properties"]["steps"]["items"]["anyOf"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| (kind["properties"]["kind"]["enum"][0].clone(), kind["additionalProperties"].clone()))
        .collect();
    let closed = |kind: &str| (json!(kind), json!(false));
    assert_eq!(kinds, [closed("wait"), closed("ask"), closed("stop")]);
    let plan = r#"{"name":"n","note":null,"steps":[{"kind":"wait","seconds":3},{"kind":"ask","whom":{"other":"x"}},
        {"kind":"ask","whom":"owner"},{"kind":"stop"}]}"#;
    let steps = vec![
        Step::Wait { seconds: 3 },
        Step::Ask { whom: Whom::Other("x".into()) },
        Step::Ask { whom: Whom::Owner },
        Step::Stop,
    ];
    assert_eq!(form.read(plan), Ok(Plan { name: "n".into(), note: None, steps }));
}

#[test]
fn what_is_no_object_is_wrapped_in_one_and_read_with_or_without_it() {
    fn both<T: JsonSchema + DeserializeOwned + PartialEq + std::fmt::Debug>(json: &str, expected: T) {
        let form = Form::of::<T>();
        assert!(form.wrapper == Some(WRAPPER) && form.output.schema["type"] == "object", "{form:?}");
        assert_eq!(form.read::<T>(&format!("{{ \"answer\": {json} }}")).as_ref(), Ok(&expected), "{form:?}");
        assert_eq!(form.read::<T>(json), Ok(expected), "without the wrapper");
    }
    both("[1, 2]", vec![1_u8, 2]);
    both("true", true);
    both("\"owner\"", Whom::Owner);
    both("18446744073709551615", u64::MAX);
    both("null", None::<Plan>);
    both(r#"{"kind":"stop"}"#, Step::Stop);
    both(r#"{"Node":[{"Leaf":1},{"Node":[]}]}"#, Tree::Node(vec![Tree::Leaf(1), Tree::Node(vec![])]));
    assert_eq!(
        Form::of::<Option<Plan>>().read::<Option<Plan>>("{}").unwrap_err().split(' ').next(),
        Some("missing")
    );
    assert!(Form::of::<Vec<String>>().output.strict);
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Said {
    Answer(String),
    Question(String),
}

#[test]
fn a_type_that_has_the_wrappers_name_itself_gets_another_wrapper() {
    let form = Form::of::<Said>();
    for text in [r#"{"final_value":{"answer":"Rome"}}"#, r#"{"answer":"Rome"}"#] {
        assert_eq!(form.read(text), Ok(Said::Answer("Rome".into())), "{text}");
    }
    assert_eq!(form.read(r#"{"question":"Which?"}"#), Ok(Said::Question("Which?".into())));
    assert!(form.output.schema["properties"]["final_value"].is_object(), "{}", form.output.schema);
}

#[test]
fn what_cannot_be_closed_is_asked_for_as_it_is() {
    let maps = Form::of::<BTreeMap<String, u8>>();
    assert!(!maps.output.strict && maps.wrapper.is_none());
    assert_eq!(maps.read(r#"{"answer":1}"#), Ok(BTreeMap::from([("answer".to_owned(), 1_u8)])));
    let tree = Form::of::<Tree>();
    assert!(!tree.output.strict, "it holds itself");
    // Every reference leads somewhere.
    for (schema, what) in [(&tree.output.schema, "oneOf"), (&Form::of::<Chain>().output.schema, "properties")]
    {
        let text = schema.to_string();
        let refs: Vec<_> =
            text.match_indices("\"$ref\":\"#").map(|(at, found)| &text[at + found.len()..]).collect();
        assert!(!refs.is_empty(), "{text}");
        for to in refs {
            let to = to.split('"').next().unwrap();
            assert!(schema.pointer(to).is_some_and(|found| found.get(what).is_some()), "{to} in {text}");
        }
    }
}

#[test]
fn json_is_found_in_fences_and_among_words() {
    let form = Form::of::<Whom>();
    let found = Ok(Whom::Other("x".into()));
    for text in [
        "{\"answer\":{\"other\":\"x\"}}",
        " \n{\"answer\": {\"other\":\"x\"}}\n ",
        "```json\n{\"answer\":{\"other\":\"x\"}}\n```",
        "```\n{\"other\":\"x\"}\n```",
        "```{\"other\":\"x\"}```",
        "Here you are:\n\n```JSON\n{\"other\":\"x\"}\n```\nAnything else?",
        "First I thought {of this}.\n{\"answer\":{\"other\":\"x\"}}",
        "The answer is {\"other\":\"x\"}, I think.",
        "```text\nnot this\n```\n```json\n{\"other\":\"x\"}\n```",
        "I thought {of this}, [1, and {\"other\":\"y\"}; so:\n{\n  \"answer\": {\n    \"other\": \"x\"\n  }\n}",
        "{\"other\":\"x\"}\nIs that {all}?",
        "[Note] {Thought} It is {\"other\":\"x\"}.",
        "{\"other\":\"y\"}\n{\"other\":\"x\"}",
        "é[é{é}é {\"other\":\"x\"} é",
    ] {
        assert_eq!(form.read(text), found, "{text}");
    }
    assert_eq!(Form::of::<Vec<u8>>().read("Here: [1, 2]."), Ok(vec![1_u8, 2]));
    assert_eq!(Form::of::<Whom>().read("owner"), Err::<Whom, _>("expected value at line 1 column 1".into()));
}

#[test]
fn a_part_of_another_value_is_no_answer() {
    for (text, fault) in [
        (r#"{"error":"none","tried":[1]}"#, "invalid type: map"),
        (r#"{"tried":[1], 'error': 2}"#, "invalid type: map"),
        (r#"{"tried":[1],"#, "invalid type: map"),
        (r#"[ {"tried":[1]}, oops"#, "invalid type: map"),
        (r#"So: {"tried":[1],"#, "expected value"),
        (r#""[1]""#, "invalid type: string"),
    ] {
        let told = Form::of::<Vec<u8>>().read::<Vec<u8>>(text).unwrap_err();
        assert!(told.starts_with(fault), "{text}: {told}");
    }
}

#[test]
fn what_is_found_stands_in_no_other_value_and_is_found_in_linear_time() {
    let found = |text: &str| values(text).into_iter().map(|at| text[at].to_owned()).collect::<Vec<_>>();
    assert_eq!(found(r#"a {b} [[1], "]"] {"c":{}}{"#), [r#"[[1], "]"]"#, r#"{"c":{}}"#]);
    for piece in ["[", "{", "[\"", "{\"a\":", "[\n", "{}", "[1,", "é[{", "[{\"a\":[1]},"] {
        // Quadratic, these would take minutes.
        assert!(values(&piece.repeat(20_000)).len() <= 20_000, "{piece}");
    }
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
struct Tagged {
    id: u8,
    #[serde(flatten)]
    step: Step,
}

#[test]
fn a_flattened_enum_has_no_closed_form_and_is_read() {
    let tagged = |id| Tagged { id, step: Step::Wait { seconds: 3 } };
    let (one, many) = (Form::of::<Tagged>(), Form::of::<Vec<Tagged>>());
    assert!(!one.output.strict && !many.output.strict, "{} {}", one.output.schema, many.output.schema);
    let json = |id: u8| format!(r#"{{"id":{id},"kind":"wait","seconds":3}}"#);
    assert_eq!(one.read(&format!(r#"{{"answer":{}}}"#, json(1))), Ok(tagged(1)));
    assert_eq!(many.read(&format!("[{},{}]", json(1), json(2))), Ok(vec![tagged(1), tagged(2)]));
}

#[test]
fn the_fault_that_is_told_is_that_of_the_answer() {
    let form = Form::of::<Plan>();
    let fault = |text: &str| form.read::<Plan>(text).unwrap_err();
    assert!(fault(r#"{"name":"n"}"#).starts_with("missing field `steps`"), "{}", fault(r#"{"name":"n"}"#));
    assert!(fault("```json\n{\"name\":7}\n```").starts_with("invalid type: integer `7`"));
    let long = format!(r#"{{"name":"n","steps":[{{"kind":"{}"}}]}}"#, "é".repeat(9_000));
    assert_eq!(fault(&long).chars().count(), MAX_FAULT_CHARS);
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(try_from = "u8")]
struct Stars(u8);

impl TryFrom<u8> for Stars {
    type Error = String;
    fn try_from(stars: u8) -> Result<Self, String> {
        if stars <= 5 { Ok(Self(stars)) } else { Err(format!("{stars} are more than 5 stars")) }
    }
}

#[test]
fn bounds_that_a_type_holds_are_held() {
    let form = Form::of::<Stars>();
    assert_eq!(form.read(r#"{"answer":5}"#), Ok(Stars(5)));
    let told = form.read::<Stars>(r#"{"answer":6}"#).unwrap_err();
    assert!(told.starts_with("6 are more than 5 stars"), "{told}");
}
