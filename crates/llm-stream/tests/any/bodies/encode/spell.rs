//! JSON in other spellings: white space, the order of fields, escapes.

use serde_json::Value;

use super::super::dice::Dice;

/// The value in one of its spellings.
pub(super) fn spell(value: &Value, may_break: bool, dice: &mut Dice<'_>) -> String {
    let mut speller = Speller {
        space: match dice.below(3) {
            1 => " ",
            2 if may_break => "\n ",
            _ => "",
        },
        ascii: dice.maybe(),
        turn: dice.below(4),
        out: String::new(),
    };
    speller.value(value);
    speller.out
}

struct Speller {
    space: &'static str,
    /// Escapes what is no ASCII, and slashes.
    ascii: bool,
    /// With which field an object begins.
    turn: usize,
    out: String,
}

impl Speller {
    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.string(text),
            Value::Array(items) => self.list("[", items.iter(), "]", Self::value),
            Value::Object(fields) => {
                let turn = self.turn % fields.len().max(1);
                let fields = fields.iter().skip(turn).chain(fields.iter().take(turn));
                self.list("{", fields, "}", |speller, (name, value)| {
                    speller.string(name);
                    speller.out.push(':');
                    speller.out.push_str(speller.space);
                    speller.value(value);
                });
            }
            other => self.out.push_str(&other.to_string()),
        }
    }

    fn list<T>(
        &mut self,
        open: &str,
        items: impl Iterator<Item = T>,
        close: &str,
        mut one: impl FnMut(&mut Self, T),
    ) {
        self.out.push_str(open);
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            self.out.push_str(self.space);
            one(self, item);
        }
        self.out.push_str(self.space);
        self.out.push_str(close);
    }

    fn string(&mut self, text: &str) {
        let quoted = Value::from(text).to_string();
        if !self.ascii {
            return self.out.push_str(&quoted);
        }
        for c in quoted.chars() {
            match c {
                '/' => self.out.push_str("\\/"),
                c if c.is_ascii() => self.out.push(c),
                c => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        self.out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
            }
        }
    }
}
