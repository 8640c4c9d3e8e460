<#
.SYNOPSIS
Watch Scheduled Events from inside a VM, prepare, approve.

.DESCRIPTION
For each event that names this VM, runs -Prepare with the event as its argument and
approves the event unless the script throws. Without -Prepare, it only prints the
events. Works in Windows PowerShell 5.1 and PowerShell 7, on any system.

.EXAMPLE
./watch.ps1 -Prepare { param($notice) ./drain.ps1 }
#>
param(
    [string] $Endpoint = $(if ($env:FOREWARN_ENDPOINT) { $env:FOREWARN_ENDPOINT }
        else { 'http://169.254.169.254' }),
    [scriptblock] $Prepare,
    # The number of polls after which to end; 0: never end.
    [int] $Polls = 0
)

$ErrorActionPreference = 'Stop'
$eventsUrl = "$Endpoint/metadata/scheduledevents?api-version=2020-07-01"
$nameUrl = "$Endpoint/metadata/instance/compute/name?api-version=2021-02-01&format=text"
$headers = @{ Metadata = 'true' }

# Metadata never goes through a proxy.
[System.Net.WebRequest]::DefaultWebProxy = $null

function Say([string] $Text) {
    '{0:HH:mm:ss} {1}' -f (Get-Date).ToUniversalTime(), $Text
}

# The first answer may take two minutes, because it enables Scheduled Events.
function Ask([string] $Url) {
    Invoke-RestMethod -Uri $Url -Headers $headers -TimeoutSec 130
}

function Approve([string] $EventId) {
    $body = @{ StartRequests = @(@{ EventId = $EventId }) } | ConvertTo-Json -Compress -Depth 3
    Invoke-RestMethod -Method Post -Uri $eventsUrl -Headers $headers -Body $body | Out-Null
}

$me = $null
while (-not $me) {
    try { $me = Ask $nameUrl }
    catch { Say "waiting for the metadata service: $_"; Start-Sleep -Seconds 1 }
}
Say "I am $me"

$known = @{}
while ($true) {
    try {
        $mine = @{}
        foreach ($notice in (Ask $eventsUrl).Events) {
            if ($notice.Resources -cnotcontains $me) { continue }
            $mine[$notice.EventId] = $notice.EventStatus
            if ($known[$notice.EventId] -ceq $notice.EventStatus) { continue }
            Say "$($notice.EventType) $($notice.EventStatus) $($notice.EventId), not before $($notice.NotBefore)"
            if ($notice.EventStatus -ceq 'Scheduled' -and $Prepare) {
                try { & $Prepare $notice }
                catch {
                    Say "not prepared, so $($notice.EventId) starts at NotBefore: $_"
                    continue
                }
                try {
                    Approve $notice.EventId
                    Say "approved $($notice.EventId)"
                }
                catch {
                    Say "the approval was not taken; once more with the next poll: $_"
                    $mine.Remove($notice.EventId)
                }
            }
        }
        foreach ($id in @($known.Keys)) {
            if (-not $mine.ContainsKey($id)) { Say "over: $id" }
        }
        $known = $mine
    }
    catch { Say "no news: $_" } # The next poll follows in a second.
    $Polls -= 1
    if ($Polls -eq 0) { break }
    Start-Sleep -Seconds 1
}
