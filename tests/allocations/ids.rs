//! That a call whose id was used before costs no more the more there were.

use turnwright_llm_stream::wire::{WireDecoder, chat::ChatDecoder};

use crate::count;

/// Decodes so many calls of one id.
fn decode(calls: usize) -> u64 {
    let call = |n: usize| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{n},\"id\":\"c\",\"function\":{{\"name\":\"f\",\
             \"arguments\":\"{{}}\"}}}}]}}}}]}}\n\n"
        )
    };
    let body: String = (0..calls).map(call).chain(["data: [DONE]\n\n".to_owned()]).collect();
    count(async {
        let (mut decoder, mut items) = (ChatDecoder::new("p"), Vec::with_capacity(8 * calls));
        decoder.feed(body.as_bytes(), &mut items);
        assert!(decoder.is_done());
    })
}

#[test]
fn a_copy_of_an_id_is_found_at_once() {
    let (few, many) = (decode(128), decode(1024));
    // Trying every suffix anew would take 64 times as many.
    assert!(many < few * 10, "{few} for 128 calls, {many} for 1024");
}
