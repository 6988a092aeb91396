// Package browser holds the tests of the status page of bulkheadhttp in a real
// browser: Debian's chromium, without a window. They are skipped where it is
// missing. The module is one of its own, so that nobody else needs the packages
// that drive a browser.
package browser
