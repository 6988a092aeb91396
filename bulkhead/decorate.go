package bulkhead

import "context"

// Decorate returns fn guarded by b: each call of the result is [Do] with fn. If
// fn is nil, each call is an error that says so; likewise below.
func Decorate[R any](b Any, fn func(context.Context) (R, error)) func(context.Context) (R, error) {
	return func(ctx context.Context) (R, error) { return Do(ctx, b, fn) }
}

// DecorateFunc is [Decorate] for a function with an argument.
func DecorateFunc[A, R any](b Any, fn func(context.Context, A) (R, error)) func(context.Context, A) (R, error) {
	return func(ctx context.Context, arg A) (R, error) {
		h := b.handle()
		if fn == nil {
			var none R
			return none, h.nilFunc()
		}
		return execute(ctx, h, func(ctx context.Context) (R, error) { return fn(ctx, arg) })
	}
}

// DecorateRun is [Decorate] for a function that returns only an error.
func DecorateRun(b Any, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error { return run(ctx, b.handle(), fn) }
}

// DecorateConsumer is [Decorate] for a function with an argument that returns
// only an error.
func DecorateConsumer[A any](b Any, fn func(context.Context, A) error) func(context.Context, A) error {
	return func(ctx context.Context, arg A) error {
		h := b.handle()
		if fn == nil {
			return h.nilFunc()
		}
		return run(ctx, h, func(ctx context.Context) error { return fn(ctx, arg) })
	}
}

// DecorateAsync is [Decorate] for calls that run on a goroutine of their own:
// each call of the result is [Go] with fn.
func DecorateAsync[R any](b Any, fn func(context.Context) (R, error)) func(context.Context) *Future[R] {
	return func(ctx context.Context) *Future[R] { return Go(ctx, b, fn) }
}
