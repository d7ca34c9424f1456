variable "name" {
  description = "Begins the name of everything here; that of the topic has .fifo after it, unless it is standard."
  type        = string
  default     = "fisa-notify"
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name))
    error_message = "The name has 2 to 40 lower-case letters, digits and dashes, and begins with a letter."
  }
}

variable "topic_type" {
  description = "fifo keeps the order of each person's messages and drops repeats within five minutes."
  type        = string
  default     = "fifo"
  validation {
    condition     = contains(["fifo", "standard"], var.topic_type)
    error_message = "The type is fifo or standard."
  }
}

variable "archive_retention_seconds" {
  description = "How long the archive queue keeps what no archiver has drained."
  type        = number
  default     = 1209600
  validation {
    condition     = var.archive_retention_seconds >= 3600 && var.archive_retention_seconds <= 1209600
    error_message = "SQS keeps messages for 14 days at most."
  }
}

variable "max_receives" {
  description = "So often a message is received before it is moved to the dead letters."
  type        = number
  default     = 10
  validation {
    condition     = var.max_receives >= 2 && var.max_receives <= 1000
    error_message = "A message is received 2 to 1000 times."
  }
}

variable "mobile_event_types" {
  description = "The event types that are for phones; empty for all."
  type        = list(string)
  default     = []
}

variable "web_event_types" {
  description = "The event types that are for browsers; empty for all."
  type        = list(string)
  default     = []
}

variable "kms_key_arn" {
  description = "A key of your own for the topic, the queues and the parameters; its policy must allow sns.amazonaws.com to use it. Null for the keys of AWS."
  type        = string
  default     = null
}

variable "mobile_package" {
  description = "The file that `tocsin functions package` made for phones."
  type        = string
}

variable "web_package" {
  description = "The file that `tocsin functions package --function web` made; needed with redis_url_parameter."
  type        = string
  default     = null
}

variable "runtime" {
  description = "The Python that the packages were made for."
  type        = string
  default     = "python3.12"
  validation {
    condition     = contains(["python3.11", "python3.12", "python3.13"], var.runtime)
    error_message = "The runtime is python3.11, python3.12 or python3.13."
  }
}

variable "architecture" {
  description = "The processor that the packages were made for."
  type        = string
  default     = "x86_64"
  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "The architecture is x86_64 or arm64."
  }
}

variable "max_concurrency" {
  description = "At most so many invocations of a function at once."
  type        = number
  default     = 10
  validation {
    condition     = var.max_concurrency >= 2 && var.max_concurrency <= 1000
    error_message = "AWS takes 2 to 1000 invocations at once."
  }
}

variable "tocsin_url" {
  description = "Where the functions reach Tocsin's API."
  type        = string
  validation {
    condition     = can(regex("^https?://[^\\s@]+$", var.tocsin_url))
    error_message = "The address begins with https://, and has no password in it."
  }
}

variable "api_key_parameter" {
  description = "The SecureString parameter with an API key of the role delivery, made by hand: what Terraform makes is in its state."
  type        = string
  validation {
    condition     = can(regex("^/[A-Za-z0-9_./-]+$", var.api_key_parameter))
    error_message = "The name of a parameter begins with a slash."
  }
}

variable "event_types" {
  description = "Events to types of the catalog; one that is not here is the type of its name with _ for the dots."
  type        = map(string)
  default     = {}
}

variable "android_application_arn" {
  description = "The platform application for FCM, in the region of the provider."
  type        = string
  validation {
    condition     = can(regex("^arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:app/GCM/[A-Za-z0-9_.-]+$", var.android_application_arn))
    error_message = "The ARN is that of a platform application: arn:aws:sns:REGION:ACCOUNT:app/GCM/NAME."
  }
}

variable "ios_application_arn" {
  description = "The platform application for APNs; null if there is none."
  type        = string
  default     = null
  validation {
    condition     = var.ios_application_arn == null || can(regex("^arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:app/APNS(_SANDBOX)?/[A-Za-z0-9_.-]+$", var.ios_application_arn))
    error_message = "The ARN is that of a platform application: arn:aws:sns:REGION:ACCOUNT:app/APNS/NAME."
  }
}

variable "redis_url_parameter" {
  description = "The SecureString parameter with the address of the gateway's Redis; null for no delivery to browsers."
  type        = string
  default     = null
  validation {
    condition     = var.redis_url_parameter == null || can(regex("^/[A-Za-z0-9_./-]+$", var.redis_url_parameter))
    error_message = "The name of a parameter begins with a slash."
  }
}

variable "subnet_ids" {
  description = "The subnets of the function for browsers, from which it reaches Redis and the Parameter Store."
  type        = list(string)
  default     = []
}

variable "security_group_ids" {
  description = "Its security groups."
  type        = list(string)
  default     = []
}

variable "alarm_topic_arn" {
  description = "A topic that alarms are sent to; null for none."
  type        = string
  default     = null
}

variable "log_retention_days" {
  description = "How long the logs of the functions are kept."
  type        = number
  default     = 30
  validation {
    condition     = contains([14, 30], var.log_retention_days)
    error_message = "Logs are kept for 14 or 30 days."
  }
}

variable "oldest_message_seconds" {
  description = "The alarm for a queue whose oldest message is older than this."
  type        = number
  default     = 900
  validation {
    condition     = var.oldest_message_seconds >= 60
    error_message = "A message may wait for a minute at least."
  }
}
