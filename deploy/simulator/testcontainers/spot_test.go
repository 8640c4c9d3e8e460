// Testcontainers for Go. Untried: it was only compiled, with stand-ins for the library, and
// never run.
//
// The image is not published. Build it in the project's directory:
//
//	docker build -t forewarn-simulator -f deploy/simulator/Dockerfile .
package service

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/wait"
)

const port = "8301/tcp"

func TestItLeavesBeforeAPreemption(t *testing.T) {
	ctx := context.Background()
	metadata := map[string]string{"Metadata": "true"}
	simulator, err := testcontainers.Run(ctx, "forewarn-simulator",
		testcontainers.WithCmd("--listen", "0.0.0.0:8301", "--vms", "1", "--speed", "1"),
		testcontainers.WithExposedPorts(port),
		testcontainers.WithWaitStrategy(
			wait.ForHTTP("/metadata/versions").WithPort(port).WithHeaders(metadata)),
	)
	testcontainers.CleanupContainer(t, simulator)
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := simulator.PortEndpoint(ctx, port, "http")
	if err != nil {
		t.Fatal(err)
	}
	// Your program, which finds Scheduled Events there instead of 169.254.169.254.
	service := Start(endpoint)
	defer service.Stop()

	forewarn(t, simulator, "sim", "event", "Preempt", "web_0", "--notice", "30s")
	for second := 0; second < 10; second++ {
		told := forewarn(t, simulator, "events", "--json")
		if strings.Contains(told, `"approved_by": "web_0"`) {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("the program did not approve within 10 s")
}

// forewarn runs a command as an operator does, in the simulator's container.
func forewarn(t *testing.T, simulator testcontainers.Container, words ...string) string {
	t.Helper()
	command := append([]string{"forewarn"}, words...)
	status, output, err := simulator.Exec(context.Background(), command, exec.Multiplexed())
	if err != nil {
		t.Fatal(err)
	}
	told, err := io.ReadAll(output)
	if err != nil {
		t.Fatal(err)
	}
	if status != 0 {
		t.Fatalf("%v: status %d: %s", command, status, told)
	}
	return string(told)
}
