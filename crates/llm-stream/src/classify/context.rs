//! By how much a request is too large, out of figures or words.

use turnwright_core::ContextSize;

use super::body::ErrorBody;

/// More is no count of tokens.
const MOST_TOKENS: u64 = 1_000_000_000;

/// What an overflown context came with; nothing when there are no figures.
pub(super) fn size_of(body: &ErrorBody) -> Option<ContextSize> {
    let size = ContextSize { needed: body.prompt_tokens, limit: body.context_tokens, excess: None };
    let size = if size == ContextSize::default() { of_words(&body.message) } else { size };
    let excess = size.excess.or_else(|| size.needed?.checked_sub(size.limit?).filter(|excess| *excess > 0));
    let needed = size.needed.or_else(|| size.limit?.checked_add(excess?));
    let size = ContextSize { needed, excess, ..size };
    (size != ContextSize::default()).then_some(size)
}

/// A number in a message, and the words on its two sides.
struct Figure<'a> {
    value: u64,
    before: &'a str,
    after: &'a str,
}

impl Figure<'_> {
    fn is_after(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.before.contains(word))
    }

    /// What it must stay below.
    fn is_limit(&self) -> bool {
        const WORDS: [&str; 8] =
            ["maximum", "max ", "limit", "allowed", "context size", "context length of", "<=", "only"];
        self.after.trim_start().starts_with("maximum") || self.is_after(&WORDS)
    }

    fn is_needed(&self) -> bool {
        const WORDS: [&str; 9] =
            ["request", "result", "contain", "count", "length is", "too long", "too large", "input", "given"];
        self.after.trim_start().starts_with("token") || self.is_after(&WORDS)
    }
}

/// The figures in a message. Every provider says it in words of its own, so these are read by what stands round a
/// number, and only where they fit together.
fn of_words(message: &str) -> ContextSize {
    let message = message.to_ascii_lowercase();
    if !["token", "length"].iter().any(|word| message.contains(word)) {
        return ContextSize::default();
    }
    let figures = figures(&message);
    // `190000 + 20000 > 200000`, or `5000 > 4096 - 100`.
    if let Some(at) = figures.iter().position(|figure| figure.before.trim_end().ends_with('>')) {
        let (limit, mut first) = (figures[at].value, at.saturating_sub(1));
        while first > 0 && figures[first].before.trim() == "+" {
            first -= 1;
        }
        let needed = figures[first..at].iter().map(|figure| figure.value).sum();
        return ContextSize { needed: (needed > limit).then_some(needed), limit: Some(limit), excess: None };
    }
    let excess = figures.iter().find(|f| f.before.trim_end().ends_with(" by")).map(|f| f.value);
    let is_other = |figure: &&Figure<'_>| Some(figure.value) != excess;
    let limit = figures.iter().filter(is_other).find(|f| f.is_limit()).map(|f| f.value);
    // The first of them is the whole, the others say what of.
    let is_over = |figure: &&Figure<'_>| limit.is_some_and(|limit| figure.value > limit);
    let needed = figures.iter().filter(is_other).filter(is_over).find(|f| f.is_needed()).map(|f| f.value);
    ContextSize { needed, limit, excess }
}

/// The numbers that stand alone, not within names, dates and ids.
fn figures(message: &str) -> Vec<Figure<'_>> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '/');
    let (mut figures, mut from, mut at): (Vec<Figure<'_>>, _, _) = (Vec::new(), 0, 0);
    while let Some(start) = message[at..].find(|c: char| c.is_ascii_digit()).map(|start| at + start) {
        let length =
            message[start..].find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(message.len() - start);
        let digits = message[start..start + length].trim_end_matches(',');
        let end = start + digits.len();
        at = end;
        // Commas stand between thousands.
        let grouped = digits.split(',').skip(1).all(|group| group.len() == 3);
        let value = digits.replace(',', "").parse().ok().filter(|value| *value <= MOST_TOKENS);
        let stands_alone = !message[..start].ends_with(|c: char| is_part(c) || c == '.')
            && !message[end..].starts_with(is_part)
            && !message[end..].trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
        if let (Some(value), true, true) = (value, grouped, stands_alone) {
            if let Some(last) = figures.last_mut() {
                last.after = &message[from..start];
            }
            figures.push(Figure { value, before: &message[from..start], after: &message[end..] });
            from = end;
        }
        // What is no figure is skipped whole.
        at += message[at..].find(|c: char| !is_part(c)).unwrap_or(message.len() - at);
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &str) -> [Option<u64>; 3] {
        let body = ErrorBody { message: message.to_owned(), ..ErrorBody::default() };
        let size = size_of(&body).unwrap_or_default();
        [size.needed, size.limit, size.excess]
    }

    /// Messages of many servers, from their documentation, public issues and recordings.
    #[test]
    fn the_figures_are_found_in_the_words_of_every_server() {
        let all = |needed: u64, limit: u64| [Some(needed), Some(limit), Some(needed - limit)];
        let table = [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens. Please reduce the length of the messages.",
                all(10_000, 8192),
            ),
            (
                "This model's maximum context length is 8,192 tokens, however you requested 10,000 tokens (9,000 in your prompt; 1,000 for the completion).",
                all(10_000, 8192),
            ),
            (
                "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens (2500021 of text input).",
                all(2_500_021, 200_000),
            ),
            (
                "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
                all(300_000, 272_000),
            ),
            ("prompt is too long: 205000 tokens > 200000 maximum", all(205_000, 200_000)),
            (
                "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
                all(210_000, 200_000),
            ),
            (
                "request (2009 tokens) exceeds the available context size (512 tokens), try increasing it",
                all(2009, 512),
            ),
            (
                "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
                all(1_250_074, 1_048_576),
            ),
            (
                "The input token count exceeds the maximum number of tokens allowed 1048576.",
                [None, Some(1_048_576), None],
            ),
            (
                "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
                all(200_000, 131_072),
            ),
            (
                "Prompt contains 50000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
                all(50_000, 32_768),
            ),
            (
                "too many tokens: size limit exceeded by 25836 tokens. Try using shorter or fewer inputs. The limit for this model is 288000 tokens.",
                all(313_836, 288_000),
            ),
            (
                "prompt too long; exceeded max context length by 1119046 tokens (ref: 96164522-08b2-4cbf-886e-e5a38961a688)",
                [None, None, Some(1_119_046)],
            ),
            (
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`",
                all(5000, 4096),
            ),
            ("The prompt is too long: 140000, model maximum context length: 131071", all(140_000, 131_071)),
            ("prompt token count of 140000 exceeds the limit of 128000", all(140_000, 128_000)),
            (
                "Please reduce the length of the messages or completion. Current length is 10000 while limit is 8192",
                all(10_000, 8192),
            ),
            (
                "Request too large for model `llama-3.1-8b-instant` in organization `org_01jx` on tokens per minute (TPM): Limit 6000, Requested 8000, please reduce your message size",
                all(8000, 6000),
            ),
            // Nothing that is a count of tokens.
            (
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
                [None; 3],
            ),
            ("invalid params, context window exceeds limit (2013)", [None; 3]),
            ("prompt is too long for gpt-4-0613, token 99999999999999999999", [None; 3]),
            ("", [None; 3]),
        ];
        for (message, expected) in table {
            assert_eq!(read(message), expected, "{message}");
        }
    }

    #[test]
    fn figures_that_are_data_count_more_than_words() {
        let body = ErrorBody {
            message: "exceeds the available context size (1 tokens)".to_owned(),
            prompt_tokens: Some(2009),
            context_tokens: Some(512),
            ..ErrorBody::default()
        };
        let expected = ContextSize { needed: Some(2009), limit: Some(512), excess: Some(1497) };
        assert_eq!(size_of(&body), Some(expected));
    }
}
