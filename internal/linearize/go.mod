module github.com/turnstile-go/turnstile/internal/linearize

go 1.26.0

replace github.com/turnstile-go/turnstile => ../..

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/turnstile-go/turnstile v0.0.0-00010101000000-000000000000
)
