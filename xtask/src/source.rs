//! Just enough of Rust's grammar to tell code from comments and literals, and tests from the rest.

/// A source file with its comments and literals blanked out.
#[derive(Debug)]
pub(crate) struct Source {
    code: String,
    tests: Vec<bool>,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let code = blank(text);
        let mut tests = vec![is_test_path(path); text.lines().count()];
        mark_tests(&code, &mut tests);
        Self { code: code.into_iter().collect(), tests }
    }

    /// Code alone: comments and literals are spaces, lines stand where they stood.
    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    /// Whether the line, counted from 1, belongs to a test.
    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.tests.get(line.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// How many lines stand outside tests.
    pub(crate) fn lines_outside_tests(&self) -> usize {
        self.tests.iter().filter(|test| !**test).count()
    }
}

/// Whether a whole file is test code: below a `tests` or `benches` folder, or a module `tests.rs`.
pub(crate) fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

/// The line, counted from 1, in which the byte stands.
pub(crate) fn line_of(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|b| *b == b'\n').count()
}

/// Where `needle` stands as a word of its own start: no identifier character comes before it.
pub(crate) fn find_words<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(needle)
        .map(|(at, _)| at)
        .filter(|at| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn blank(text: &str) -> Vec<char> {
    let source: Vec<char> = text.chars().collect();
    let mut code = source.clone();
    let mut at = 0;
    while at < source.len() {
        let Some(length) = not_code(&source, at) else {
            at += 1;
            continue;
        };
        let end = (at + length).min(source.len());
        code[at..end].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
        at = end;
    }
    code
}

/// The length of the comment or literal that starts here, if one does.
fn not_code(source: &[char], at: usize) -> Option<usize> {
    let rest = &source[at..];
    match rest {
        ['/', '/', ..] => Some(rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())),
        ['/', '*', ..] => Some(block_comment(rest)),
        ['"', ..] => Some(string(rest)),
        ['r', '"' | '#', ..] if starts_literal(&source[..at]) => raw_string(rest),
        // The escaped character itself may be a quote, hence the search from the fourth on.
        ['\'', '\\', _, tail @ ..] => Some(4 + tail.iter().position(|c| *c == '\'').unwrap_or(tail.len())),
        ['\'', _, '\'', ..] => Some(3),
        _ => None,
    }
}

/// Whether an `r` after this text can open a raw string: `br` and `cr` do, `for` does not.
fn starts_literal(before: &[char]) -> bool {
    let is_word = |c: Option<&char>| c.is_some_and(|c| c.is_alphanumeric() || *c == '_');
    match before {
        [start @ .., 'b' | 'c'] => !is_word(start.last()),
        _ => !is_word(before.last()),
    }
}

fn block_comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = &rest[2 + hashes..];
    let end = body.windows(closing.len()).position(|window| window == closing);
    Some(end.map_or(rest.len(), |end| 2 + hashes + end + closing.len()))
}

/// Marks the lines of every item under a test attribute.
fn mark_tests(code: &[char], tests: &mut [bool]) {
    let line = |at: usize| code[..at.min(code.len())].iter().filter(|c| **c == '\n').count();
    for at in (0..code.len()).filter(|at| code[*at] == '#') {
        let end = balanced_end(code, at);
        let attribute: String = code[at..end].iter().filter(|c| !c.is_whitespace()).collect();
        if attribute == "#![cfg(test)]" {
            tests.fill(true);
        } else if is_test_attribute(&attribute) {
            let last = tests.len().min(line(item_end(code, end).saturating_sub(1)) + 1);
            tests[line(at).min(last)..last].fill(true);
        }
    }
}

fn is_test_attribute(attribute: &str) -> bool {
    attribute == "#[test]"
        || attribute.starts_with("#[tokio::test")
        || attribute == "#[cfg(test)]"
        || attribute.starts_with("#[cfg(all(test,")
}

/// Behind the first bracket that opens at or after `at` and all that it holds.
fn balanced_end(code: &[char], at: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, c) in code[at..].iter().enumerate() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth <= 1 => return at + offset + 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Behind the item that starts here: its body in braces, or its semicolon.
fn item_end(code: &[char], start: usize) -> usize {
    let mut at = start;
    while at < code.len() {
        match code[at] {
            ';' | '}' => return at + 1,
            '{' => return balanced_end(code, at),
            '(' | '[' => at = balanced_end(code, at),
            _ => at += 1,
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text = "a /* b /* c */ d */ e // f\n\"g \\\" h\" i br#\"j \" k\"# l 'm' '\\'' '\"' n: &'o str r#for \"p\" q";
        let code: String = Source::parse("src/x.rs", text).code().split_whitespace().collect();
        assert_eq!(code, "aeibln:&'ostrr#forq");
        assert_eq!(line_of(text, text.len()), 2);
    }

    #[test]
    fn test_items_are_told_from_the_rest() {
        let text = "fn a() {}\n#[cfg(test)]\nuse b::{c};\nfn d() {}\n#[test]\nfn e(x: [u8; 3]) {\n  \"}\"\n}\n\
                    #[cfg(any(test, feature = \"x\"))]\nfn f() {}\n#[cfg(test)]\nmod tests {\n  fn g() {}\n}\n";
        let source = Source::parse("src/x.rs", text);
        let tests: Vec<usize> = (1..=text.lines().count()).filter(|line| source.is_test(*line)).collect();
        assert_eq!(tests, [2, 3, 5, 6, 7, 8, 11, 12, 13, 14]);
        assert_eq!(source.lines_outside_tests(), 4);
        assert_eq!(Source::parse("src/x.rs", "#![cfg(test)]\nfn a() {}").lines_outside_tests(), 0);
        assert_eq!(Source::parse("crates/x/tests/a.rs", "fn a() {}").lines_outside_tests(), 0);
    }

    #[test]
    fn words_start_where_no_identifier_runs_into_them() {
        assert_eq!(find_words("todo!() my_todo!() x.todo!", "todo!").collect::<Vec<_>>(), [0, 21]);
    }
}
