use turnwright_interceptor::interceptor;

struct NoLayer;

fn main() {
    let _ = interceptor!(NoLayer);
}
