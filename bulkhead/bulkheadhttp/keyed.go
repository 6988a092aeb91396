package bulkheadhttp

import (
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// NewKeyedTransport returns a [Transport] with one limit per host: each request
// takes its permit from k under its key and is then sent by base, as by
// [NewTransport]. So a host that is slow uses up its own limit and leaves the
// others alone. It panics if k is nil.
//
// The key is host:port of the request's URL in lower case, such as
// "example.com:443" or "[::1]:8080", and it is what the limit function given to
// [bulkhead.NewKeyed] gets to see. The port is there even if the URL leaves it
// out: that of its scheme, http or https, and otherwise nothing after the colon.
// Neither the request's Host nor a proxy matters, and names are not resolved:
// two names of one host have a limit each.
func NewKeyedTransport[T any](k *bulkhead.Keyed[string, T], base http.RoundTripper, opts TransportOptions) *Transport {
	if k == nil {
		panic("bulkheadhttp: NewKeyedTransport with a nil bulkhead.Keyed")
	}
	acquire := func(r *http.Request) (*bulkhead.Permit, error) { return k.Acquire(r.Context(), hostKey(r.URL)) }
	return &Transport{acquire, base, opts}
}

// hostKey returns the key of u. Without a URL there is no host; that is for the
// base to refuse, as it is with any other.
func hostKey(u *url.URL) string {
	if u == nil {
		return ""
	}
	if u.Port() != "" {
		return strings.ToLower(u.Host)
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), schemePort(u.Scheme))
}

func schemePort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}
