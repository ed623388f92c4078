use turnwright_hook::hook;

struct NoHook;

fn main() {
    let _ = hook!(NoHook);
}
