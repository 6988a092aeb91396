package semaphore

import "errors"

// What an acquire returns when it holds nothing, besides the error of its
// context. They are returned as they are, so == works as well as [errors.Is].
var (
	// ErrTimeout: the request's maximum wait passed before its permits came;
	// or they were not available and it was not willing to wait at all.
	ErrTimeout = errors.New("semaphore: timed out")

	// ErrQueueFull: the request would have had to wait, and as many requests
	// as Config.MaxWaiters allows were waiting already.
	ErrQueueFull = errors.New("semaphore: queue full")

	// ErrClosed: the semaphore was closed, before the request or while it
	// waited.
	ErrClosed = errors.New("semaphore: closed")

	// ErrExceedsLimit: the request's weight is above a limit that is not 0, so
	// no number of releases could ever make it fit; or [Weighted.SetLimit]
	// made it so while the request waited.
	ErrExceedsLimit = errors.New("semaphore: weight exceeds limit")

	// ErrPending: an asynchronous request is not decided yet.
	ErrPending = errors.New("semaphore: pending")
)
