{{- define "forewarn.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "forewarn.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "forewarn.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "forewarn.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "forewarn.selector" -}}
app.kubernetes.io/name: {{ include "forewarn.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "forewarn.labels" -}}
{{ include "forewarn.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "forewarn.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "forewarn.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The secret with the tokens; empty: there are none, and only the pod is answered. */ -}}
{{- define "forewarn.tokens" -}}
{{- if .Values.admin.existingSecret -}}
{{- .Values.admin.existingSecret -}}
{{- else if .Values.admin.tokens -}}
{{- printf "%s-tokens" (include "forewarn.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- /* How the kubelet asks: by HTTP, or within the pod where only that is answered. */ -}}
{{- define "forewarn.ask" -}}
{{- if include "forewarn.tokens" .top -}}
httpGet:
  path: {{ .path }}
  port: admin
  {{- if .top.Values.admin.tlsSecret }}
  scheme: HTTPS
  {{- end }}
{{- else -}}
exec:
  command:
    - python
    - -c
    - import urllib.request as r; r.urlopen("http://127.0.0.1:8200{{ .path }}", timeout=4)
{{- end -}}
{{- end -}}
