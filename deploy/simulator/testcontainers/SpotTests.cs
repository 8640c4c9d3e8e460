// Testcontainers for .NET, with xUnit 2. Untried: it was only compiled, with stand-ins for
// the library, and never run.
//
// The image is not published. Build it in the project's directory:
//   docker build -t forewarn-simulator -f deploy/simulator/Dockerfile .

using System;
using System.Linq;
using System.Threading.Tasks;
using DotNet.Testcontainers.Builders;
using DotNet.Testcontainers.Containers;
using Xunit;

public sealed class SpotTests : IAsyncLifetime
{
    private const int Port = 8301;

    private readonly IContainer simulator = new ContainerBuilder("forewarn-simulator")
        .WithCommand("--listen", "0.0.0.0:8301", "--vms", "1", "--speed", "1")
        .WithPortBinding(Port, true)
        .WithWaitStrategy(Wait.ForUnixContainer().UntilHttpRequestIsSucceeded(request => request
            .ForPort(Port)
            .ForPath("/metadata/versions")
            .WithHeader("Metadata", "true")))
        .Build();

    public Task InitializeAsync() => simulator.StartAsync();

    public Task DisposeAsync() => simulator.DisposeAsync().AsTask();

    [Fact]
    public async Task It_leaves_before_a_preemption()
    {
        var endpoint = $"http://{simulator.Hostname}:{simulator.GetMappedPublicPort(Port)}";
        // Your program, which finds Scheduled Events there instead of 169.254.169.254.
        using (var service = Service.Start(endpoint))
        {
            await Forewarn("sim", "event", "Preempt", "web_0", "--notice", "30s");
            Assert.True(await IsApproved(), "the program did not approve within 10 s");
        }
    }

    private async Task<bool> IsApproved()
    {
        for (var second = 0; second < 10; second++)
        {
            var told = await Forewarn("events", "--json");
            if (told.Contains("\"approved_by\": \"web_0\""))
            {
                return true;
            }
            await Task.Delay(TimeSpan.FromSeconds(1));
        }
        return false;
    }

    // Runs a command as an operator does, in the simulator's container.
    private async Task<string> Forewarn(params string[] words)
    {
        var command = new[] { "forewarn" }.Concat(words).ToList();
        var done = await simulator.ExecAsync(command);
        Assert.True(done.ExitCode == 0, done.Stderr);
        return done.Stdout;
    }
}
