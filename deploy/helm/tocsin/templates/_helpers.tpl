{{- define "tocsin.labels" -}}
app.kubernetes.io/name: tocsin
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tocsin.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The argument of what follows has the key root, and of: the values that have the Secrets and settings of the process. */}}
{{- define "tocsin.environment" -}}
envFrom:
  - secretRef:
      name: {{ required "Set secretName, and mailer.secretName with the mailer, to a Secret that has TOCSIN_DATABASE_URL." .of.secretName }}
env:
  {{- range $name, $value := .of.settings }}
  - name: {{ $name }}
    value: {{ $value | quote }}
  {{- end }}
  - name: TOCSIN_DISPATCH__STOP_SECONDS
    value: {{ .root.Values.stopSeconds | quote }}
  - name: TOCSIN_HTTP__DRAIN_SECONDS
    value: {{ .root.Values.stopSeconds | quote }}
  - name: TOCSIN_GATEWAY__DRAIN_SECONDS
    value: {{ .root.Values.stopSeconds | quote }}
{{- end }}

{{- define "tocsin.security" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "tocsin.mounts" -}}
volumeMounts:
  - name: tmp
    mountPath: /tmp
  {{- if .of.filesSecretName }}
  - name: files
    mountPath: /etc/tocsin/files
    readOnly: true
  {{- end }}
{{- end }}

{{- define "tocsin.pod" -}}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
volumes:
  - name: tmp
    emptyDir: {}
  {{- if .of.filesSecretName }}
  - name: files
    secret:
      secretName: {{ .of.filesSecretName }}
      defaultMode: 0440
  {{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* One Deployment; its argument has the keys root, of, part (its name and command), values, port, and probes if they have
a port of their own. */}}
{{- define "tocsin.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .root.Release.Name }}-{{ .part }}
  labels:
    {{- include "tocsin.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .part }}
spec:
  {{- if not (and (hasKey .values "autoscaling") .values.autoscaling.enabled) }}
  replicas: {{ .values.replicas }}
  {{- end }}
  strategy:
    rollingUpdate:
      maxUnavailable: 0
      maxSurge: 1
  selector:
    matchLabels:
      {{- include "tocsin.labels" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .part }}
  template:
    metadata:
      labels:
        {{- include "tocsin.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .part }}
      {{- with .root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      {{- include "tocsin.pod" . | nindent 6 }}
      # The pause before SIGTERM, the drain, and ten seconds to spare.
      terminationGracePeriodSeconds: {{ add .root.Values.stopSeconds 15 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "tocsin.labels" .root | nindent 14 }}
              app.kubernetes.io/component: {{ .part }}
      containers:
        - name: {{ .part }}
          image: {{ include "tocsin.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [{{ .part }}]
          ports:
            - name: http
              containerPort: {{ .port }}
          {{- with .probes }}
            - name: probes
              containerPort: {{ . }}
          {{- end }}
          {{- include "tocsin.environment" . | nindent 10 }}
          {{- include "tocsin.security" .root | nindent 10 }}
          {{- include "tocsin.mounts" . | nindent 10 }}
          # Not whether it is ready: a database that is away would restart what starts meanwhile.
          startupProbe:
            httpGet: {path: /healthz, port: {{ .probes | default .port }}}
            periodSeconds: 2
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: /healthz, port: {{ .probes | default .port }}}
            periodSeconds: 10
            timeoutSeconds: 5
          # Fails while the database, or the gateway's Redis, is away, without a restart.
          readinessProbe:
            httpGet: {path: /readyz, port: {{ .probes | default .port }}}
            periodSeconds: 5
            timeoutSeconds: 5
          {{- if or (eq .part "api") (eq .part "gateway") }}
          lifecycle:
            preStop:
              # Meanwhile the Service stops sending new connections here.
              exec: {command: [sleep, "5"]}
          {{- end }}
          resources:
            {{- toYaml .values.resources | nindent 12 }}
{{- end }}
