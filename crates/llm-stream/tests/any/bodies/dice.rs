//! Choices out of bytes, so that proptest and a fuzzer can steer what is made of them.

/// Hands out choices. When the bytes are used up each choice is the first one.
pub(crate) struct Dice<'a>(&'a [u8]);

impl<'a> Dice<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below this one, which is at most 256.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    pub(crate) fn maybe(&mut self) -> bool {
        self.byte() % 2 == 1
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// What was not used.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Where to cut an input, by the input itself: the same input is always cut in the same places.
pub(crate) fn pieces(input: &[u8], salt: u64) -> Vec<&[u8]> {
    let mut state = input.iter().fold(0xCBF2_9CE4_8422_2325 ^ salt, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
    });
    let mut next = move |end: usize| {
        // Xorshift; a state of zero would stay so.
        state = state.max(1);
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap_or_default() % end.max(1)
    };
    let (longest, mut rest, mut pieces) = (1 + next(64), input, Vec::new());
    while !rest.is_empty() {
        // Empty pieces too.
        let (piece, after) = rest.split_at(next(longest + 1).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
