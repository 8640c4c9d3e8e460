// Testcontainers for Java, with JUnit 5. Untried: it was only compiled, with stand-ins for
// the library, and never run.
//
// The image is not published. Build it in the project's directory:
//   docker build -t forewarn-simulator -f deploy/simulator/Dockerfile .

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.Container.ExecResult;
import org.testcontainers.containers.GenericContainer;
import org.testcontainers.containers.wait.strategy.Wait;

class SpotTest {
    private static final int PORT = 8301;

    private final GenericContainer<?> simulator = new GenericContainer<>("forewarn-simulator")
            .withCommand("--listen", "0.0.0.0:8301", "--vms", "1", "--speed", "1")
            .withExposedPorts(PORT)
            .waitingFor(Wait.forHttp("/metadata/versions").forPort(PORT).withHeader("Metadata", "true"));

    @BeforeEach
    void start() {
        simulator.start();
    }

    @AfterEach
    void stop() {
        simulator.stop();
    }

    @Test
    void leavesBeforeAPreemption() throws Exception {
        String endpoint = "http://" + simulator.getHost() + ":" + simulator.getMappedPort(PORT);
        // Your program, which finds Scheduled Events there instead of 169.254.169.254.
        try (Service service = Service.start(endpoint)) {
            forewarn("sim", "event", "Preempt", "web_0", "--notice", "30s");
            assertTrue(isApproved(), "the program did not approve within 10 s");
        }
    }

    private boolean isApproved() throws Exception {
        for (int second = 0; second < 10; second++) {
            if (forewarn("events", "--json").contains("\"approved_by\": \"web_0\"")) {
                return true;
            }
            Thread.sleep(1000);
        }
        return false;
    }

    /** Give an order as an operator does, in the simulator's container. */
    private String forewarn(String... words) throws Exception {
        String[] command = new String[words.length + 1];
        command[0] = "forewarn";
        System.arraycopy(words, 0, command, 1, words.length);
        ExecResult done = simulator.execInContainer(command);
        assertEquals(0, done.getExitCode(), done.getStderr());
        return done.getStdout();
    }
}
