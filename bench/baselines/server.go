// The baseline in Go: net/http with one fixed answer. Amazon's metadata mock uses
// net/http too. Run it as `server ADDRESS FILE ETAG`.
package main

import (
	"net/http"
	"os"
	"runtime"
	"strconv"
)

func main() {
	runtime.GOMAXPROCS(1)
	body, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	length := strconv.Itoa(len(body))
	handle := func(w http.ResponseWriter, r *http.Request) {
		headers := w.Header()
		headers.Set("Content-Type", "application/json; charset=utf-8")
		headers.Set("Content-Length", length)
		headers.Set("ETag", os.Args[3])
		w.Write(body)
	}
	panic(http.ListenAndServe(os.Args[1], http.HandlerFunc(handle)))
}
