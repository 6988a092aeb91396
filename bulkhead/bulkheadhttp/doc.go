// Package bulkheadhttp bounds HTTP requests with a bulkhead, those that a server
// takes and those that a client sends.
package bulkheadhttp
