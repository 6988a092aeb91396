package bulkheadhttp

import (
	"reflect"

	"github.com/turnstile-go/turnstile/bulkhead"
)

// refuseNil panics if there is no bulkhead for what constructor makes, which
// would otherwise panic at each request.
func refuseNil(constructor string, b bulkhead.Any) {
	// In a variable that is yet to be set, a nil *Bulkhead is not a nil Any.
	if v := reflect.ValueOf(b); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("bulkheadhttp: " + constructor + " with a nil bulkhead")
	}
}
