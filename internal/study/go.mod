module github.com/turnstile-go/turnstile/internal/study

go 1.26.0

replace github.com/turnstile-go/turnstile => ../..

require (
	github.com/turnstile-go/turnstile v0.0.0
	golang.org/x/sync v0.25.0
)
